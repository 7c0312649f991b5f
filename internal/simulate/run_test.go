package simulate

import (
	"bytes"
	"context"
	"math"
	"testing"
	"time"
)

// render plays a scenario and writes all that is shown of it.
func render(t testing.TB, s *Scenario) []byte {
	t.Helper()
	s.Seeds = 1
	list, err := ByName(s.Compared...)
	if err != nil {
		t.Fatal(err)
	}
	result, err := Play(context.Background(), s, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	table := result.Table()
	for _, err := range []error{table.WriteText(&b), table.WriteCSV(&b)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestSameSeedSameBytes(t *testing.T) {
	t.Parallel()
	for _, scenario := range []func() *Scenario{scenarioE, scenarioG} {
		first, second := render(t, scenario()), render(t, scenario())
		if !bytes.Equal(first, second) {
			t.Errorf("two runs differ:\n%s\n%s", first, second)
		}
	}
}

// The events come in order of time, and those of one instant as planned.
func TestHeap(t *testing.T) {
	t.Parallel()
	var h heap
	chance := newStream(1, 1)
	for range 10_000 {
		h.plan(int64(chance.below(500)), arrive, 0, 0)
	}
	last := event{at: -1}
	for range 10_000 {
		e := h.next()
		if e.before(&last) {
			t.Fatalf("%+v came after %+v", e, last)
		}
		last = e
	}
}

func TestLogarithm(t *testing.T) {
	t.Parallel()
	chance := newStream(2, 1)
	for range 10_000 {
		x := 1 - chance.float()
		if got, want := ln(x), math.Log(x); math.Abs(got-want) > 1e-15*max(1, math.Abs(want)) {
			t.Fatalf("ln(%v) is %v, want %v", x, got, want)
		}
	}
}

func TestChance(t *testing.T) {
	t.Parallel()
	chance := newStream(3, 1)
	const n = 200_000
	var exponential, normal, square float64
	for range n {
		exponential += chance.exponential(10)
		x := chance.normal(10, 2)
		normal += x
		square += (x - 10) * (x - 10)
	}
	near(t, "mean of exponential", exponential/n, 10, 0.1)
	near(t, "mean of normal", normal/n, 10, 0.03)
	near(t, "variance of normal", square/n, 4, 0.05)
}

// An empty queue with one worker is M/M/1: the mean wait follows from the load.
func TestQueue(t *testing.T) {
	t.Parallel()
	m := Model{Clients: 10, Rate: 70, Workers: 1, Service: 10 * time.Millisecond, Layers: 1}
	m = m.during(0, 2000*time.Second, 2001*time.Second)
	s := Run(&m, contenders[0], 1)
	// p99 of the time in an M/M/1 queue is ln(100)/(mu - lambda)
	near(t, "p99", s.Latency.Quantile(0.99).Seconds(), math.Log(100)/30, 0.02)
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	for _, ns := range []int64{0, 1, 15, 16, 17, 31, 32, 1000, 1e9, 123_456_789_012} {
		low, high := least(bin(ns)), least(bin(ns)+1)
		if ns < low || ns >= high {
			t.Errorf("%d is in the bin from %d to %d", ns, low, high)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	for _, name := range []string{"full-jitter", "decider"} {
		b.Run(name, func(b *testing.B) {
			m := scenarioA2().Points[3].Model
			c, _ := contender(name)
			b.ReportAllocs()
			events := 0.0
			for seed := range b.N {
				events += float64(Run(&m, c, uint64(seed)).Events)
			}
			b.ReportMetric(events/b.Elapsed().Minutes()/1e6, "Mevents/min")
		})
	}
}

// Clients of an open full breaker make no call, and a few while it is half open.
func TestFullBreaker(t *testing.T) {
	t.Parallel()
	m := fleetOf(200, 200, 20, 10*millisecond).during(10*second, 40*second, 60*second, Fault{Kind: FaultRefuse})
	c, _ := contender("decider-breaker-all")
	s := Run(&m, c, 1)
	if after := float64(s.Opened-int64(m.From)) / 1e9; after < 0.3 || after > 0.8 {
		t.Errorf("open after %.2f s", after)
	}
	if attempts, _, _ := s.sum(int64(12500*millisecond), int64(15*second)); attempts != 0 {
		t.Errorf("%d attempts while it is open", attempts)
	}
	score := s.score()
	if score.Load > 0.07 || score.Recovery > 8 {
		t.Errorf("a load of %.3f, recovery in %.1f s", score.Load, score.Recovery)
	}
	if attempts, firsts, _ := s.sum(int64(15*second), int64(m.To)); float64(attempts) > 0.05*float64(firsts) || attempts == 0 {
		t.Errorf("%d attempts for %d calls while it is open and half open by turns", attempts, firsts)
	}
}
