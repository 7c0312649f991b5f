package budget

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget/redistest"
)

// sentNames is a client's hook that keeps the names of what is sent.
type sentNames struct {
	hold
	names map[string]bool
}

func (h sentNames) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			h.names[cmd.FullName()] = true
		}
		return next(ctx, cmds)
	}
}

func (h sentNames) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.names[cmd.FullName()] = true
		return next(ctx, cmd)
	}
}

// A server is told nothing of the client's library, which an old one answers with
// an error.
func TestClientDoesNotIntroduceItself(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t).URL)
	sent := sentNames{names: map[string]bool{}}
	client.AddHook(sent)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for name := range sent.names {
		if name != "hello" && name != "ping" {
			t.Errorf("the server was sent %s", name)
		}
	}
}
