package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	decider "github.com/retrydecider/decider/clients/go"
)

// dependency is a server over HTTP that is down for a while: it then answers 503
// at once. One with a share of failures fails that share of requests instead.
type dependency struct {
	url    string
	start  time.Time
	plan   *plan
	fails  float64
	server *http.Server

	mu       sync.Mutex
	arrivals []arrived
}

// arrived is one request, and whether it was a call's first.
type arrived struct {
	at    time.Duration // since the start
	first bool
}

func newDependency(p *plan, start time.Time, fails float64) (*dependency, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &dependency{url: "http://" + listener.Addr().String() + "/", start: start, plan: p, fails: fails}
	d.server = &http.Server{Handler: d, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := d.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	}()
	return d, nil
}

// ServeHTTP answers by the time.
func (d *dependency) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Since(d.start)
	first := r.Header.Get(decider.AttemptHeader) == "1"
	d.mu.Lock()
	d.arrivals = append(d.arrivals, arrived{at, first})
	d.mu.Unlock()
	down := at >= d.plan.Healthy && at < d.plan.Healthy+d.plan.Outage
	if d.fails > 0 {
		down = rand.Float64() < d.fails
	}
	if down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok")
}

func (d *dependency) close() { _ = d.server.Close() }
