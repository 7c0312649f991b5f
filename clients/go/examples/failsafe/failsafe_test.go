package failsafe_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	failsafego "github.com/failsafe-go/failsafe-go"

	decider "github.com/retrydecider/decider/clients/go"
	"github.com/retrydecider/decider/clients/go/examples/failsafe"
	"github.com/retrydecider/decider/clients/go/examples/internal/standin"
)

func TestDeciderDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		statuses  []int
		want      int
		requests  int
		questions int
	}{
		{"a success asks nobody", []int{200}, 200, 1, 0},
		{"a retry", []int{503, 200}, 200, 2, 1},
		{"the last response is returned", []int{503, 502, 500}, 500, 3, 3},
		{"a final failure", []int{404}, 404, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := standin.Start(t, 3)
			url, requests := standin.Dependency(t, c.statuses...)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := failsafe.Do(d.Client, r, new(http.Client).Do)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if body, err := io.ReadAll(response.Body); err != nil || len(body) != 3 {
				t.Errorf("body %q, %v", body, err)
			}
			if response.StatusCode != c.want || requests() != c.requests || len(d.Questions()) != c.questions {
				t.Errorf("status %d after %d requests and %d questions", response.StatusCode, requests(), len(d.Questions()))
			}
		})
	}
}

// The policy serves calls that are no HTTP too.
func TestAnyOperation(t *testing.T) {
	t.Parallel()
	d := standin.Start(t, 4)
	broken := errors.New("broken pipe")
	policy := failsafe.NewRetryPolicy(t.Context(), d.Client, func(_ int, err error) (decider.Attempt, bool) {
		return decider.Attempt{Dependency: "queue", Method: http.MethodPut, Outcome: decider.ConnectionReset}, err != nil
	})
	calls := 0
	got, err := failsafego.With[int](policy).Get(func() (int, error) {
		if calls++; calls < 3 {
			return 0, broken
		}
		return 42, nil
	})
	if got != 42 || err != nil || len(d.Questions()) != 2 || d.Questions()[1].Attempt != 2 {
		t.Errorf("%d, %v after questions %+v", got, err, d.Questions())
	}
}
