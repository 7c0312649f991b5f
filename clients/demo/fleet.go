package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	decider "github.com/retrydecider/decider/clients/go"
)

// fleetConfig is what one process of a fleet is told.
type fleetConfig struct {
	Rule       string
	Clients    int // of this process
	Rate       float64
	Upstream   string
	Decider    string
	Dependency string
	Start      time.Time
	Length     time.Duration
	AskTimeout time.Duration
	Named      bool
	Seed       uint64
}

// fleetReport is what it tells when it has ended.
type fleetReport struct {
	Calls []callRecord
	// Decisions of decider, and of the local rule, by their times since the start.
	Asked, Alone []time.Duration
	// Degraded are decisions for which decider could not reach Redis in time.
	Degraded int
}

// callRecord is one call of a program.
type callRecord struct {
	At   time.Duration // since the start
	Good bool
	// Took is without the waits before retries.
	Took time.Duration
}

// callLimit is the deadline of a call, all attempts and waits included.
const callLimit = 5 * time.Second

// runFleet makes calls at random instants, by one client of its own after the
// other, until its time is over or its parent's input ends.
func runFleet(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var c fleetConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	f := &fleetProcess{config: c, random: rand.New(rand.NewPCG(c.Seed, 1))}
	if err := f.connect(); err != nil {
		return err
	}
	f.call(ctx)
	return json.NewEncoder(out).Encode(&f.report)
}

// fleetProcess is one process with several clients, each as if it were alone.
type fleetProcess struct {
	config  fleetConfig
	random  *rand.Rand
	clients []http.RoundTripper
	asking  []*decider.Client

	mu     sync.Mutex
	report fleetReport
}

// connect makes the clients. Only connections are shared.
func (f *fleetProcess) connect() error {
	base := &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 512}
	toDecider := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 512}}
	for i := range f.config.Clients {
		caller := "demo"
		if f.config.Named {
			caller = fmt.Sprintf("demo-%d-%d", f.config.Seed, i)
		}
		switch f.config.Rule {
		case retries:
			f.clients = append(f.clients, &repeater{base: base})
		case bucket:
			f.clients = append(f.clients, &repeater{base: base, bucket: newTokens()})
		default:
			client, err := decider.NewClient(f.config.Decider, decider.WithHTTPClient(toDecider), decider.WithTimeout(f.config.AskTimeout), decider.WithCaller(caller))
			if err != nil {
				return err
			}
			f.asking = append(f.asking, client)
			f.clients = append(f.clients, decider.NewTransport(client, decider.WithBase(base), decider.WithObserver(decider.ObserverFunc(f.observe)),
				decider.WithDependency(func(*http.Request) string { return f.config.Dependency })))
		}
	}
	return nil
}

// call makes calls in a Poisson stream: a program does not wait for one call
// before it makes the next.
func (f *fleetProcess) call(ctx context.Context) {
	var all sync.WaitGroup
	for at := time.Duration(0); ; {
		at += time.Duration(f.random.ExpFloat64() / f.config.Rate * float64(time.Second))
		if at >= f.config.Length || !sleep(ctx, time.Until(f.config.Start.Add(at))) {
			break
		}
		client := f.clients[f.random.IntN(len(f.clients))]
		all.Go(func() { f.one(client) })
	}
	all.Wait()
	for _, each := range f.asking {
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = each.Close(bounded) // the demo is over; what is not reported is lost
		cancel()
	}
}

// one makes one call and records it.
func (f *fleetProcess) one(client http.RoundTripper) {
	w := new(waits)
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), waitsKey{}, w), callLimit)
	defer cancel()
	begin := time.Now()
	good := get(ctx, client, f.config.Upstream)
	took := time.Since(begin) - w.sum
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report.Calls = append(f.report.Calls, callRecord{begin.Sub(f.config.Start), good, took})
}

func get(ctx context.Context, client http.RoundTripper, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.RoundTrip(r)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
}

// waits sums what a call waited before retries.
type waits struct{ sum time.Duration }

type waitsKey struct{}

// observe is told of each decision.
func (f *fleetProcess) observe(ctx context.Context, e decider.Event) {
	if w, ok := ctx.Value(waitsKey{}).(*waits); ok {
		w.sum += e.Decision.Delay
	}
	at := time.Since(f.config.Start)
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Decision.Degraded {
		f.report.Degraded++
	}
	if e.Decision.Local {
		f.report.Alone = append(f.report.Alone, at)
	} else {
		f.report.Asked = append(f.report.Asked, at)
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
