package budget

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed roster.lua
var rosterLua string

// rosterKey holds the deciders that share a Redis; no dependency can have its name.
const rosterKey = "decider:{_fleet}:replicas"

const (
	// beatEvery is how often a replica says that it lives.
	beatEvery = time.Second
	// keepSilent is how long a replica that says nothing counts as alive.
	keepSilent = 5 * time.Second
)

// Replica is one decider as it tells of itself.
type Replica struct {
	ID string `json:"-"`
	// Version of the program, and Config, the hash of its policy file.
	Version string `json:"version"`
	Config  string `json:"config"`
	// Since is when it started.
	Since time.Time `json:"since"`
}

// Roster knows the deciders that share a Redis, by their heartbeats. While
// Redis is out of reach it keeps what it knew last.
type Roster struct {
	redis   *Redis
	timeout time.Duration
	// self is what this replica says; Config may change with every beat.
	self func() Replica

	mu    sync.Mutex
	alive []Replica
	stop  chan struct{}
	done  chan struct{}
}

// NewRoster starts the heartbeats of a replica; until the first is answered
// the roster knows nobody.
func NewRoster(r *Redis, timeout time.Duration, self func() Replica) *Roster {
	roster := &Roster{redis: r, timeout: timeout, self: self, stop: make(chan struct{}), done: make(chan struct{})}
	go roster.beat()
	return roster
}

// Alive lists the replicas that are known to live, by their ids.
func (r *Roster) Alive() []Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.alive)
}

// Count is how many replicas are known to live, or otherwise where none is.
func (r *Roster) Count(otherwise int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.alive) == 0 {
		return max(otherwise, 1)
	}
	return len(r.alive)
}

// Close ends the heartbeats and leaves the roster.
func (r *Roster) Close() {
	close(r.stop)
	<-r.done
	_, _ = r.say("") // a replica that cannot leave is dropped when it is silent
}

func (r *Roster) beat() {
	defer close(r.done)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		if words, err := json.Marshal(r.self()); err == nil {
			if alive, err := r.say(string(words)); err == nil {
				r.mu.Lock()
				r.alive = alive
				r.mu.Unlock()
			}
		}
		select {
		case <-r.stop:
			return
		case <-tick.C:
		}
	}
}

// say tells the others of this replica and hears of them.
func (r *Roster) say(words string) ([]Replica, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	clock := ""
	if r.redis.now != nil {
		clock = strconv.FormatInt(r.redis.now().UnixMilli(), 10)
	}
	flat, err := r.redis.client.Eval(ctx, rosterLua, []string{rosterKey}, clock, r.self().ID, words, keepSilent.Milliseconds()).StringSlice()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	return readReplicas(flat), nil
}

func readReplicas(flat []string) []Replica {
	var alive []Replica
	for i := 0; i+1 < len(flat); i += 2 {
		replica := Replica{}
		if json.Unmarshal([]byte(flat[i+1]), &replica) == nil {
			replica.ID = flat[i]
			alive = append(alive, replica)
		}
	}
	slices.SortFunc(alive, func(a, b Replica) int { return strings.Compare(a.ID, b.ID) })
	return alive
}
