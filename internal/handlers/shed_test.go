package handlers

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// Clients are told to make fewer calls only by a breaker in mode all.
func TestAdmit(t *testing.T) {
	t.Parallel()
	const all = 1.0
	for _, c := range []struct {
		name     string
		mode     decide.BreakerMode
		breaker  decide.BreakerState
		override decide.OverrideMode
		share    float64
	}{
		{"open", decide.BreakerModeAll, decide.BreakerOpen, decide.OverrideNone, 0},
		{"open, retries alone", decide.BreakerModeRetries, decide.BreakerOpen, decide.OverrideNone, all},
		{"closed", decide.BreakerModeAll, decide.BreakerClosed, decide.OverrideNone, all},
		{"half open", decide.BreakerModeAll, decide.BreakerHalfOpen, decide.OverrideNone, 0.05},
		{"half open, retries alone", decide.BreakerModeRetries, decide.BreakerHalfOpen, decide.OverrideNone, all},
		{"open, and forced by an operator", decide.BreakerModeAll, decide.BreakerOpen, decide.OverrideAllow, all},
		{"open, and paused", decide.BreakerModeAll, decide.BreakerOpen, decide.OverridePause, 0},
	} {
		state := dependencyState("payments", &decide.Policy{Breaker: decide.BreakerRule{Mode: c.mode}},
			&decide.State{Breaker: c.breaker, Override: decide.Override{Mode: c.override}})
		share := all
		if state.Admit != nil {
			share = *state.Admit
		}
		if share != c.share {
			t.Errorf("%s: %v of the calls are admitted, wanted %v", c.name, share, c.share)
		}
	}
}
