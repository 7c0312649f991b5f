//go:build linux

package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// record is one decision that was asked for, and its answer.
type record struct {
	id         string
	dependency string
	replica    int
	asked      time.Time
	took       time.Duration
	// wrong is what was not as every answer must be; "" is well.
	wrong    string
	granted  bool
	degraded bool
}

// load asks replicas for decisions, in turn, at a steady pace.
type load struct {
	urls         []string
	dependencies []string
	// workers ask one after the other, perSecond all together.
	workers, perSecond int

	web     *http.Client
	stop    atomic.Bool
	running sync.WaitGroup
	mu      sync.Mutex
	records []record
}

// run starts the load.
func (l *load) run() {
	l.web = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: l.workers}}
	pause := time.Second * time.Duration(l.workers) / time.Duration(l.perSecond)
	for w := range l.workers {
		l.running.Go(func() {
			next := time.Now().Add(pause * time.Duration(w) / time.Duration(l.workers))
			for n := 0; !l.stop.Load(); n++ {
				time.Sleep(time.Until(next))
				l.keep(l.ask(w, n))
				// What a stalled server holds up is not made up for by a burst, and
				// each worker keeps its own beat.
				for now := time.Now(); !next.After(now); {
					next = next.Add(pause)
				}
			}
		})
	}
}

// end ends the load and returns what it was answered, in the order of asking.
func (l *load) end() []record {
	l.stop.Store(true)
	l.running.Wait()
	l.web.CloseIdleConnections()
	slices.SortFunc(l.records, func(a, b record) int { return a.asked.Compare(b.asked) })
	return l.records
}

func (l *load) keep(r record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
}

func (l *load) ask(worker, n int) record {
	r := record{id: fmt.Sprintf("w%d-%d", worker, n), dependency: l.dependencies[(worker+n/len(l.urls))%len(l.dependencies)], replica: n % len(l.urls)}
	r.asked = time.Now()
	r.answer(l.web, l.urls[r.replica])
	r.took = time.Since(r.asked)
	return r
}

// answer asks for the decision and keeps what came of it.
func (r *record) answer(web *http.Client, url string) {
	body := `{"dependency":"` + r.dependency + `","method":"GET","status":503,"decision_id":"` + r.id + `"}`
	response, err := web.Post(url+"/v1/decide", "application/json", strings.NewReader(body))
	if err != nil {
		r.wrong = err.Error()
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		r.wrong = fmt.Sprintf("%s, %v: %s", response.Status, err, text)
		return
	}
	var d struct {
		Decision, Reason string
		DecisionID       string `json:"decision_id"`
		Degraded         bool
		Budget           *struct{ Source string }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		r.wrong = err.Error()
		return
	}
	r.granted, r.degraded = d.Decision == "retry", d.Degraded
	source := "fleet"
	if d.Degraded {
		source = "local"
	}
	if d.DecisionID != r.id || d.Budget == nil || d.Budget.Source != source || d.Reason != "backoff" && d.Reason != "budget_exhausted" {
		r.wrong = "an answer that fits no state of the store: " + string(text)
	}
}

// between are the records of what was asked from one instant to another.
func between(records []record, from, to time.Time) []record {
	return slices.Collect(func(yield func(record) bool) {
		for _, r := range records {
			if !r.asked.Before(from) && r.asked.Before(to) && !yield(r) {
				return
			}
		}
	})
}

func count(records []record, is func(r *record) bool) (n int) {
	for i := range records {
		if is(&records[i]) {
			n++
		}
	}
	return n
}

func degraded(r *record) bool { return r.degraded }

// percentile is the time within which so many of a hundred were answered.
func percentile(records []record, of int) time.Duration {
	if len(records) == 0 {
		return 0
	}
	took := make([]time.Duration, len(records))
	for i, r := range records {
		took[i] = r.took
	}
	slices.Sort(took)
	return took[(len(took)*of+99)/100-1]
}
