package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// control starts sessions and judges them.
type control struct {
	cases map[string]*scenario

	mu       sync.Mutex
	sessions map[string]*session
	next     int
}

func (c *control) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cases", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, slices.Sorted(maps.Keys(c.cases)))
	})
	mux.HandleFunc("POST /cases/{id}", c.start)
	mux.HandleFunc("POST /sessions/{session}/results", c.judge)
	return mux
}

// start is what a runner needs to know of a case.
type start struct {
	Client     clientConfig `json:"client"`
	DeciderURL string       `json:"decider_url"`
	ResultsURL string       `json:"results_url"`
	Calls      []call       `json:"calls"`
}

func (c *control) start(w http.ResponseWriter, r *http.Request) {
	s, ok := c.cases[r.PathValue("id")]
	if !ok {
		http.Error(w, "no such case", http.StatusNotFound)
		return
	}
	session, err := newSession(s)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	c.mu.Lock()
	c.next++
	id := strconv.Itoa(c.next)
	c.sessions[id] = session
	c.mu.Unlock()
	begin := start{Client: s.Client, DeciderURL: session.decider.url, ResultsURL: fmt.Sprintf("http://%s/sessions/%s/results", r.Host, id)}
	for _, each := range s.Calls {
		each.URL = session.upstream.url + each.Path
		each.Result = nil // it is not the runner that judges
		begin.Calls = append(begin.Calls, each)
	}
	writeJSON(w, begin)
}

// verdict is what came of a case.
type verdict struct {
	Pass     bool     `json:"pass"`
	Failures []string `json:"failures,omitempty"`
}

func (c *control) judge(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	session := c.sessions[r.PathValue("session")]
	delete(c.sessions, r.PathValue("session"))
	c.mu.Unlock()
	if session == nil {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	session.close()
	var in struct {
		Results []result `json:"results"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	failures := session.judge(in.Results)
	writeJSON(w, verdict{Pass: len(failures) == 0, Failures: failures})
}

func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, each := range c.sessions {
		each.close()
	}
}

func writeJSON(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document)
}
