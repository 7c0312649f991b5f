package backoff_test

import (
	"errors"
	"testing"
	"time"

	decider "github.com/retrydecider/decider/clients/go"
	"github.com/retrydecider/decider/clients/go/examples/backoff"
	"github.com/retrydecider/decider/clients/go/examples/internal/standin"
)

var errReset, errWrong = errors.New("reset"), errors.New("wrong password")

func describe(err error) (decider.Attempt, bool) {
	return decider.Attempt{Method: "GET", Outcome: decider.ConnectionReset}, !errors.Is(err, errWrong)
}

func TestDeciderDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		errs      []error // of one attempt after the other; then it succeeds
		want      error
		attempts  int
		questions int
	}{
		{"a success asks nobody", nil, nil, 1, 0},
		{"a retry", []error{errReset}, nil, 2, 1},
		{"decider gives up", []error{errReset, errReset, errReset, errReset}, errReset, 3, 3},
		{"a final failure", []error{errWrong}, errWrong, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := standin.Start(t, 3)
			attempts, begin := 0, time.Now()
			_, err := backoff.Retry(t.Context(), d.Client, "queue", func() (int, error) {
				attempts++
				if attempts <= len(c.errs) {
					return 0, c.errs[attempts-1]
				}
				return 42, nil
			}, describe)
			if !errors.Is(err, c.want) || attempts != c.attempts || len(d.Questions()) != c.questions {
				t.Errorf("%v after %d attempts and %d questions", err, attempts, len(d.Questions()))
			}
			if waited := time.Since(begin); waited < time.Duration(c.attempts-1)*standin.Delay {
				t.Errorf("took %s", waited)
			}
		})
	}
}
