package programtest

import (
	"strings"
	"testing"
)

// InTime plays what is held to times, at most three times: a machine that stands
// still for a moment disturbs one play, and what is at fault is so in each. play
// returns what came too late; all else that is wrong it reports itself.
func InTime(t testing.TB, play func() (late []string)) {
	t.Helper()
	for n := 1; ; n++ {
		late := play()
		if len(late) == 0 || t.Failed() {
			return
		}
		if n == 3 {
			t.Errorf("too late, the third time: %s", strings.Join(late, "\n"))
			return
		}
		t.Logf("too late, played again: %s", strings.Join(late, "\n"))
	}
}
