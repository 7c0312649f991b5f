package budget

import (
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/budget/redistest"
)

// However often nobody was there to be dialed, whoever dials next is let through.
func TestFailedDialsAreForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b, p := NewRedis(newClient(t, server.URL), nil), testRule(nil)
	server.Kill()
	for i := range 200 { // several times what a pool holds
		if err := b.Run(t.Context(), p.Name, p, []op{{look: &look{}}}); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Fatalf("dial %d: %v", i+1, err)
		}
	}
	server.Restart(t)
	if err := b.Run(t.Context(), p.Name, p, []op{{look: &look{}}}); err != nil {
		t.Errorf("after its return: %v", err)
	}
}
