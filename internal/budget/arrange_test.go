package budget

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

func TestArrange(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := testRule(func(p *decide.Policy) { p.Breaker.Mode = decide.BreakerModeRetries })
	one := token
	for _, each := range []struct {
		name    string
		arrange Arrangement
		want    string
	}{
		{"nothing", Arrangement{}, "granted 9/10 closed"},
		{"tokens", Arrangement{Tokens: &one}, "granted 0/10 closed"},
		{"more tokens than it holds", Arrangement{Tokens: ptrTo(99 * token)}, "granted 9/10 closed"},
		{"a cool-down", Arrangement{CoolDown: 500}, "granted 9/10 cool 500 closed"},
		{"an open breaker", Arrangement{Breaker: decide.BreakerOpen}, "open breaker again 500 open"},
		{"a half open breaker", Arrangement{Breaker: decide.BreakerHalfOpen}, "granted 9/10 half_open"},
		{"a pause", Arrangement{Override: decide.OverridePause}, "paused again 86400000 closed"},
	} {
		m := NewMemory(c.now)
		m.Arrange(p.Name, p, each.arrange)
		ops := []op{{ask: newQuestion(asked(p))}}
		_ = m.Run(t.Context(), p.Name, p, ops)
		if got := said(ops[0].answer); got != each.want {
			t.Errorf("%s: %q, want %q", each.name, got, each.want)
		}
	}
}

func ptrTo(m decide.Micro) *decide.Micro { return &m }
