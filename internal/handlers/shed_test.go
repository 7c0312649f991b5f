package handlers

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// Clients are told to make no calls only by an open breaker in mode all.
func TestAdmit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		mode     decide.BreakerMode
		breaker  decide.BreakerState
		override decide.OverrideMode
		sheds    bool
	}{
		{"open", decide.BreakerModeAll, decide.BreakerOpen, decide.OverrideNone, true},
		{"open, retries alone", decide.BreakerModeRetries, decide.BreakerOpen, decide.OverrideNone, false},
		{"closed", decide.BreakerModeAll, decide.BreakerClosed, decide.OverrideNone, false},
		{"half open", decide.BreakerModeAll, decide.BreakerHalfOpen, decide.OverrideNone, false},
		{"open, and forced by an operator", decide.BreakerModeAll, decide.BreakerOpen, decide.OverrideAllow, false},
		{"open, and paused", decide.BreakerModeAll, decide.BreakerOpen, decide.OverridePause, true},
	} {
		state := dependencyState("payments", &decide.Policy{Breaker: decide.BreakerRule{Mode: c.mode}},
			&decide.State{Breaker: c.breaker, Override: decide.Override{Mode: c.override}})
		if sheds := state.Admit != nil && *state.Admit == 0; sheds != c.sheds || state.Admit != nil && !c.sheds {
			t.Errorf("%s: admit %v", c.name, state.Admit)
		}
	}
}
