package simulate

import (
	"fmt"
	"strings"
	"time"
)

const (
	second      = time.Second
	millisecond = time.Millisecond
)

// fleetOf is what the built-in scenarios have in common.
func fleetOf(clients int, rate float64, workers int, service time.Duration) Model {
	return Model{Clients: clients, Rate: rate, Workers: workers, Service: service, Timeout: second, Layers: 1, Retries: 3,
		Answer: 2 * millisecond, ReportEvery: second}
}

// during sets a fault and the trigger's window to its time.
func (m Model) during(from, to, end time.Duration, faults ...Fault) Model {
	m.From, m.To, m.End = from, to, end
	m.Faults = nil
	for _, f := range faults {
		f.From, f.To = from, to
		m.Faults = append(m.Faults, f)
	}
	return m
}

func (m Model) outage() Model {
	return m.during(30*second, 90*second, 130*second, Fault{Kind: FaultRefuse})
}

func (m Model) failing(p float64) Model {
	return m.during(30*second, 90*second, 95*second, Fault{Kind: FaultFail, P: p})
}

// Builtin lists the built-in scenarios, in the order of their names.
func Builtin() []*Scenario {
	return []*Scenario{
		scenarioA(), scenarioA2(), scenarioB(), scenarioC1(), scenarioC2(), scenarioD(), scenarioE(),
		scenarioF(), scenarioG(), scenarioH(), scenarioI(), scenarioJ(), scenarioK(), brooker2022(), brookerClients(), hotos2021(),
	}
}

// Named is the built-in scenario of a name, in any case.
func Named(name string) (*Scenario, bool) {
	for _, s := range Builtin() {
		if strings.EqualFold(s.Name, name) {
			return s, true
		}
	}
	return nil, false
}

func scenarioA() *Scenario {
	m := fleetOf(1000, 1000, 20, 10*millisecond)
	hang := m.during(30*second, 90*second, 130*second, Fault{Kind: FaultHang})
	return &Scenario{Name: "A", Title: "Total outage", Seeds: 3,
		About:  "1,000 clients, 1,000 calls/s, a capacity of 2,000/s; for 60 s the dependency refuses every connection, or answers nothing.",
		Points: []Point{{Label: "refuse", Model: m.outage()}, {Label: "hang", Model: hang}},
		Compared: []string{"none", "fixed", "full-jitter", "grpc", "aws-2026", "finagle", "per-client", "per-client-request",
			"decider", "decider-no-floor", "decider-request", "decider-breaker-retries", "decider-breaker-all"}}
}

func scenarioA2() *Scenario {
	s := &Scenario{Name: "A2", Title: "Total outage against the number of clients", Seeds: 3, Axis: "clients",
		About:    "The same 1,000 calls/s and the same 60 s outage, cut into 10 to 10,000 clients, or into clients that live for 10 calls each, or for one.",
		Compared: []string{"full-jitter", "grpc", "aws-2026", "finagle", "per-client", "decider", "decider-no-floor", "decider-request"}}
	for _, clients := range []int{10, 100, 1000, 10_000} {
		s.Points = append(s.Points, Point{Label: fmt.Sprintf("%d clients", clients), X: float64(clients), Model: fleetOf(clients, 1000, 20, 10*millisecond).outage()})
	}
	for _, life := range []int{10, 1} {
		m := fleetOf(1000, 1000, 20, 10*millisecond).outage()
		m.Life = life
		s.Points = append(s.Points, Point{Label: calls(life) + " each", Model: m})
	}
	return s
}

func calls(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}

func scenarioB() *Scenario {
	s := &Scenario{Name: "B", Title: "Partial failure", Seeds: 3, Axis: "failure rate (%)",
		About: "1,000 clients, 1,000 calls/s, a capacity of 5,000/s; for 60 s each attempt fails with probability p.",
		Compared: []string{"none", "full-jitter", "grpc", "aws-2026", "finagle", "per-client", "decider", "decider-yield", "decider-no-floor", "decider-request",
			"decider-breaker-retries", "decider-breaker-all"}}
	for _, p := range []float64{1, 5, 10, 30, 50, 70, 90} {
		s.Points = append(s.Points, Point{Label: fmt.Sprintf("p = %g %%", p), X: p, Model: fleetOf(1000, 1000, 50, 10*millisecond).failing(p / 100)})
	}
	return s
}

// blip is the HotOS'21 example: for 10 s the network holds what is sent.
func blip(retries int) Model {
	m := fleetOf(100, 280, 30, 100*millisecond).during(30*second, 40*second, 200*second, Fault{Kind: FaultHold})
	m.Retries = retries
	return m
}

// Long after a blip: 100 to 150 s after its end.
func later(name, unit string, of func(attempts, firsts, good int64) float64) Column {
	return Column{Name: name, Unit: unit, Decimals: 1, measure: func(m *Model, s *Stats) float64 {
		return of(s.sum(int64(m.To+100*second), int64(m.To+150*second)))
	}}
}

var loadLater = later("load later", "/s", func(attempts, _, _ int64) float64 { return float64(attempts) / 50 })

var goodLater = later("ok later", "%", func(_, firsts, good int64) float64 { return float64(100 * ratio(good, firsts)) })

func scenarioC1() *Scenario {
	return &Scenario{Name: "C1", Title: "A network blip near capacity", Seeds: 12,
		About:  "280 calls/s on a capacity of 300/s; for 10 s the network holds what is sent, and what is still wanted lands at once.",
		Points: []Point{{Label: "1 retry", X: 1, Model: blip(1)}, {Label: "3 retries", X: 3, Model: blip(3)}},
		Compared: []string{"none", "full-jitter", "grpc", "aws-2026", "finagle", "per-client", "per-client-request",
			"decider", "decider-no-floor", "decider-request", "decider-breaker-retries", "decider-breaker-all"},
		Extra: []Column{loadLater, goodLater}, Hide: []string{"load", "success", "peak"}}
}

func scenarioC2() *Scenario {
	s := &Scenario{Name: "C2", Title: "A short loss of capacity, against load", Seeds: 3, Axis: "utilisation",
		About: "1,000 clients on a capacity of 1,000/s, of which 80 % are lost for 10 s: how long until calls end well again?",
		Compared: []string{"none", "full-jitter", "grpc", "aws-2026", "finagle", "per-client", "per-client-request",
			"decider", "decider-no-floor", "decider-request", "decider-breaker-retries", "decider-breaker-all"}}
	for _, rho := range []float64{.20, .30, .50, .70, .80, .88, .93, .97} {
		m := fleetOf(1000, float64(1000*rho), 10, 10*millisecond).during(20*second, 30*second, 185*second, Fault{Kind: FaultSlow, Factor: 5})
		s.Points = append(s.Points, Point{Label: fmt.Sprintf("rho %.2f", rho), X: rho, Model: m})
	}
	return s
}

func scenarioD() *Scenario {
	s := &Scenario{Name: "D", Title: "Three layers that retry", Seeds: 3,
		About:    "300 clients, 200 calls/s through three layers, each of which retries: with a budget per layer, with one for all, or where only the lowest retries.",
		Compared: []string{"full-jitter", "grpc", "aws-2026", "finagle", "per-client", "decider", "decider-no-floor", "decider-request"}}
	triggers := []struct {
		name  string
		apply func(Model) Model
	}{
		{"outage", Model.outage},
		{"p = 10 %", func(m Model) Model { return m.failing(0.1) }},
		{"p = 50 %", func(m Model) Model { return m.failing(0.5) }},
	}
	for _, t := range triggers {
		for scope, name := range []string{"a budget per layer", "one budget", "lowest layer only"} {
			m := t.apply(fleetOf(300, 200, 50, 10*millisecond))
			m.Layers, m.Scope = 3, Scope(scope)
			s.Points = append(s.Points, Point{Label: t.name + ", " + name, Model: m})
		}
	}
	return s
}

func scenarioE() *Scenario {
	m := Model{Clients: 1000, Burst: 1000, BurstAt: second, Workers: 20, Service: 10 * millisecond, Queue: 20, Timeout: second, Layers: 1, Retries: 10,
		Answer: 2 * millisecond, ReportEvery: second, From: second, To: 40 * second, End: 40 * second, Slot: 10 * millisecond}
	laterPeak := Column{Name: "later peak", Unit: "per 10 ms", measure: func(m *Model, s *Stats) float64 {
		return float64(s.peak(int64(m.From)+2*s.width, int64(m.To)))
	}}
	return &Scenario{Name: "E", Title: "1,000 calls at one instant", Seeds: 3, Extra: []Column{laterPeak}, Hide: []string{"recovery", "fairness"},
		About:    "1,000 clients call at the same instant a dependency that takes 2,000/s and queues 20; 10 retries each.",
		Points:   []Point{{Label: "1,000 at once", Model: m}},
		Compared: []string{"none", "fixed", "exponential", "full-jitter", "equal-jitter", "decorrelated-jitter", "grpc", "per-client", "decider", "decider-paced"}}
}

func scenarioF() *Scenario {
	s := &Scenario{Name: "F", Title: "A bad neighbour", Seeds: 3, Axis: "failure rate of the others (%)",
		About:    "One client makes a fifth of 1,000 calls/s and always fails; the other 999 fail with probability p.",
		Compared: []string{"none", "full-jitter", "per-client", "decider", "decider-no-share", "decider-no-floor", "decider-request"},
		Hide:     []string{"peak", "recovery"},
		Extra: []Column{{Name: "others ok", Unit: "%", Decimals: 2, measure: func(_ *Model, s *Stats) float64 {
			return float64(100 * ratio(s.Group[1].Good, s.Group[1].Firsts))
		}}}}
	for _, named := range []Callers{CallerEach, CallerFirst} {
		for _, p := range []float64{1, 5, 10} {
			m := fleetOf(1000, 1000, 50, 10*millisecond).failing(p / 100)
			m.Faults[0].From = 0
			m.FirstShare, m.FirstFails, m.Callers = 0.2, true, named
			label := fmt.Sprintf("p = %g %%, 1,000 names", p)
			if named == CallerFirst {
				label = fmt.Sprintf("p = %g %%, two names", p)
			}
			s.Points = append(s.Points, Point{Label: label, X: p, Model: m})
		}
	}
	return s
}

func scenarioG() *Scenario {
	s := &Scenario{Name: "G", Title: "Little traffic", Seeds: 3,
		About:    "100 clients that make one call a second in all, for ten minutes: partial failure, and an outage.",
		Compared: []string{"none", "full-jitter", "grpc", "per-client", "decider", "decider-no-floor", "decider-request", "decider-breaker-retries"},
		Hide:     []string{"peak"}}
	m := fleetOf(100, 1, 50, 10*millisecond)
	for _, p := range []float64{5, 10, 30} {
		s.Points = append(s.Points, Point{Label: fmt.Sprintf("p = %g %%", p), X: p, Model: m.during(30*second, 630*second, 640*second, Fault{Kind: FaultFail, P: p / 100})})
	}
	s.Points = append(s.Points, Point{Label: "outage", Model: m.during(30*second, 630*second, 640*second, Fault{Kind: FaultRefuse})})
	return s
}

func scenarioH() *Scenario {
	few, many := fleetOf(100, 1000, 50, 10*millisecond).failing(0.5), fleetOf(1000, 1000, 50, 10*millisecond).failing(0.5)
	zipf := few
	zipf.Zipf = true
	return &Scenario{Name: "H", Title: "Fairness", Seeds: 3, Hide: []string{"peak", "recovery"},
		About: "Half of all attempts fail for 60 s: who is granted the retries? Jain's index over the clients' granted shares, 1 is even.",
		Points: []Point{{Label: "100 clients", X: 100, Model: few}, {Label: "1000 clients", X: 1000, Model: many},
			{Label: "100 clients, Zipf", X: 100, Model: zipf}},
		Compared: []string{"grpc", "per-client", "decider", "decider-no-share", "decider-no-floor", "decider-request", "decider-breaker-retries"}}
}

// loadIn is the load in the first so many seconds of the trigger.
func loadIn(seconds int) Column {
	return Column{Name: fmt.Sprintf("load in %d s", seconds), Decimals: 3, measure: func(m *Model, s *Stats) float64 {
		attempts, firsts, _ := s.sum(int64(m.From), int64(m.From)+int64(seconds)*1e9)
		return ratio(attempts, firsts)
	}}
}

func scenarioI() *Scenario {
	s := &Scenario{Name: "I", Title: "Size of the bucket", Seeds: 3, Axis: "tokens",
		About:    "A total outage after 30 good seconds: how much comes in its first second, ten, and minute?",
		Compared: []string{"per-client", "decider-no-floor", "decider-request"}, Hide: []string{"load", "success", "recovery", "fairness"},
		Extra: []Column{loadIn(1), loadIn(10), loadIn(60)}}
	for _, size := range []int{1, 5, 10, 50, 100, 1000, 10_000} {
		m := fleetOf(1000, 1000, 20, 10*millisecond).outage()
		m.Tokens = size
		s.Points = append(s.Points, Point{Label: fmt.Sprintf("%d tokens", size), X: float64(size), Model: m})
	}
	return s
}

func scenarioJ() *Scenario {
	s := &Scenario{Name: "J", Title: "Late reports and late answers", Seeds: 3, Compared: []string{"decider", "decider-no-floor", "decider-request"},
		About: "Clients report their successes every 0 to 30 s, and decider answers after 2 ms to 1 s: an outage, p = 30 %, and a loss of capacity at rho 0.7."}
	bases := []struct {
		name  string
		model Model
	}{
		{"outage", fleetOf(1000, 1000, 20, 10*millisecond).outage()},
		{"p = 30 %", fleetOf(1000, 1000, 50, 10*millisecond).failing(0.3)},
		{"rho 0.70", fleetOf(1000, 700, 10, 10*millisecond).during(20*second, 30*second, 185*second, Fault{Kind: FaultSlow, Factor: 5})},
	}
	for _, base := range bases {
		for _, lag := range []time.Duration{0, second, 10 * second, 30 * second} {
			m := base.model
			m.ReportEvery = lag
			s.Points = append(s.Points, Point{Label: fmt.Sprintf("%s, reports every %s", base.name, short(lag)), X: lag.Seconds(), Model: m})
		}
		for _, answer := range []time.Duration{100 * millisecond, second} {
			m := base.model
			m.Answer = answer
			s.Points = append(s.Points, Point{Label: fmt.Sprintf("%s, answers in %s", base.name, short(answer)), X: answer.Seconds(), Model: m})
		}
	}
	return s
}

func scenarioK() *Scenario {
	m := fleetOf(1000, 650, 10, 10*millisecond).during(30*second, 90*second, 130*second)
	m.Queue = 20
	m.Rates = []RateStep{{30 * second, 1300}, {90 * second, 650}}
	return &Scenario{Name: "K", Title: "True overload", Seeds: 3,
		About:    "Load doubles to 1,300 calls/s for 60 s on a capacity of 1,000/s that queues 20 and refuses the rest at once.",
		Points:   []Point{{Label: "650 to 1300/s", Model: m}},
		Compared: []string{"none", "fixed", "full-jitter", "grpc", "aws-2026", "finagle", "per-client", "per-client-request", "decider", "decider-yield", "decider-no-floor", "decider-request"},
		Extra: []Column{{Name: "p99 of good", Unit: "s", Decimals: 2, measure: func(_ *Model, s *Stats) float64 {
			return s.Latency.Quantile(0.99).Seconds()
		}}}}
}

// short writes a duration without needless parts.
func short(d time.Duration) string {
	if d%second == 0 {
		return fmt.Sprintf("%d s", d/second)
	}
	return fmt.Sprintf("%d ms", d/millisecond)
}
