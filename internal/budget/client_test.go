package budget

import (
	"context"
	"strings"
	"testing"
	"time"

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

// What is wrong with a URL is told without a piece of the password in it.
func TestAWrongURLKeepsItsPassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"redis://user:q:qqq/q@h:1", "redis://user:q%qq@h:1", "redis://user:qq%zzqq@h:1", "redis://user:12/qqq/q@h:1/0", "redis://user:12/qqq@h:1",
		"redis://user:12?qqq@h:1", "redis://user:12#qqq@h:1", "redis://user:qq qq@h:qq", "redis://[qqq:q@h", "user:qq@h:1\n", ":qqq@h", "redis://:qqq/@h:1",
		"redis://user:12/qqq@h:1?master_name=m", "redis://user:12/qqq@h:1?cluster=true", "redis://user:q/qqq@h:1?cluster=true", "redis://\x7fqqq@h",
	} {
		client, err := NewClient(address, time.Second)
		if err == nil {
			_ = client.Close()
			t.Errorf("%q is taken", address)
			continue
		}
		if said := err.Error(); strings.Contains(said, "q") {
			t.Errorf("%q: %s", address, said)
		}
	}
	for address, want := range map[string]string{
		"http://user:pass@h:1":                  "redis: invalid URL scheme: http",
		"redis://user:pass@h:1/many":            `redis: invalid database number: "many"`,
		"redis://user:pass@h:1?colour=red":      "redis: unexpected option: colour",
		"redis://user:pass@h:1?cluster=perhaps": "cluster is true or is not there",
	} {
		if _, err := NewClient(address, time.Second); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pass") {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
	for _, address := range []string{"redis://user:p%40%2F@h:1", "redis://h:1?master_name=m&username=u&password=p@ss", "unix://user:pass@/run/a@b"} {
		client, err := NewClient(address, time.Second)
		if err != nil {
			t.Errorf("%q: %v", address, err)
			continue
		}
		_ = client.Close()
	}
}
