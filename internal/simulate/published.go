package simulate

import (
	"fmt"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// Scenarios that others have published with their numbers.

// published contenders are compared in those scenarios alone. They wait nothing.
var published = []Contender{
	atOnce("at-once", "retries at once", nil),
	atOnce("bucket-2022", "10 % of calls per client, burst 5, more than one token needed", newBucket2022),
	atOnce("breaker-2022", "retries while at most 10 % fail, per client since its start", newRetryBreaker),
}

func atOnce(name, about string, allowanceOf func(r *run) allowance) Contender {
	return Contender{name, about, func(r *run) rule {
		return newLocal(r, r.model.Retries, decide.Backoff{Strategy: decide.Constant}, allowanceOf)
	}}
}

// brookerFleet is the fleet of "Fixing retries with token buckets and circuit
// breakers" (2022): no bound of capacity, no backoff, 10 ms each way.
func brookerFleet(clients int, rate float64, p float64, seconds int) Model {
	m := Model{Clients: clients, Rate: rate, Latency: 10 * millisecond, LatencyVaries: true, Layers: 1, Retries: 3}
	return m.during(0, time.Duration(seconds)*second, time.Duration(seconds+1)*second, Fault{Kind: FaultFail, P: p})
}

var compared2022 = []string{"none", "at-once", "bucket-2022", "breaker-2022"}

func brooker2022() *Scenario {
	s := &Scenario{Name: "brooker-2022", Title: "Fixing retries with token buckets and circuit breakers", Seeds: 3, Axis: "failure rate (%)",
		About:    "100 clients of 10 calls/s each, 20 s, each attempt fails with probability p, no backoff and no bound of capacity (published 2022-02-28).",
		Compared: compared2022, Hide: []string{"peak", "recovery", "fairness"}}
	for _, p := range []float64{1, 5, 10, 20, 30, 50, 75} {
		s.Points = append(s.Points, Point{Label: fmt.Sprintf("p = %g %%", p), X: p, Model: brookerFleet(100, 1000, p/100, 20)})
	}
	return s
}

// brookerClients is that article's chart of success against the number of clients.
func brookerClients() *Scenario {
	s := &Scenario{Name: "brooker-2022-clients", Title: "The same against the number of clients", Seeds: 3,
		About:    "100 calls/s in all, cut into 10, 100 or 1,000 clients, over 10 s and 100 s.",
		Compared: []string{"bucket-2022", "breaker-2022"}, Hide: []string{"peak", "recovery", "fairness"}}
	for _, seconds := range []int{10, 100} {
		for _, p := range []float64{10, 20, 50} {
			for _, clients := range []int{10, 100, 1000} {
				label := fmt.Sprintf("p = %g %%, %d clients, %d s", p, clients, seconds)
				s.Points = append(s.Points, Point{Label: label, X: float64(clients), Model: brookerFleet(clients, 100, p/100, seconds)})
			}
		}
	}
	return s
}

// hotos2021 is the retry example of "Metastable failures in distributed systems".
func hotos2021() *Scenario {
	s := scenarioC1()
	s.Name, s.Title = "hotos-2021", "The retry example of Metastable Failures in Distributed Systems"
	s.About = "280 queries/s on a database that takes 300/s, one retry after a timeout of 1 s, a 10 s blip: the load stays at 560/s."
	s.Points = s.Points[:1]
	s.Compared = []string{"none", "fixed", "decider", "decider-breaker-all"}
	return s
}
