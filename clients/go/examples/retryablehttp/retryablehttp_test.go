package retryablehttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	hashicorp "github.com/hashicorp/go-retryablehttp"

	"github.com/retrydecider/decider/clients/go/examples/internal/standin"
	"github.com/retrydecider/decider/clients/go/examples/retryablehttp"
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
			client := &retryablehttp.Client{Decider: d.Client, HTTP: new(http.Client)}
			r, err := hashicorp.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			response, err := client.Do(r)
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
			if waited := time.Since(begin); waited < time.Duration(c.requests-1)*standin.Delay {
				t.Errorf("took %s", waited)
			}
			for i, q := range d.Questions() {
				if q.Attempt != i+1 || q.Method != http.MethodPut || q.RetryAfter != "1" {
					t.Errorf("question %+v", q)
				}
			}
		})
	}
}

func TestErrorsAreDescribed(t *testing.T) {
	t.Parallel()
	d := standin.Start(t, 2)
	client := &retryablehttp.Client{Decider: d.Client, HTTP: new(http.Client)}
	r, err := hashicorp.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err == nil {
		response.Body.Close()
		t.Fatal("no error")
	}
	if q := d.Questions(); len(q) != 2 || q[0].Outcome != "connection_refused" || q[1].Attempt != 2 {
		t.Errorf("questions %+v", q)
	}
}
