package budget

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// NoEviction is the one maxmemory-policy under which Redis loses no bucket. A
// lost bucket starts full, so a Redis that evicts gives its budgets back.
const NoEviction = "noeviction"

const (
	// settingsEvery is how often Redis is asked for its settings.
	settingsEvery = 30 * time.Second
	// settingsSoon is how soon it is asked again where it did not answer.
	settingsSoon = time.Second
)

// Settings knows those settings of a Redis that budgets depend on.
type Settings struct {
	redis   *Redis
	timeout time.Duration
	changed func(policy string)

	mu     sync.Mutex
	policy string
	stop   chan struct{}
	done   chan struct{}
}

// NewSettings starts to watch the settings. changed hears of each
// maxmemory-policy that is another than before.
func NewSettings(r *Redis, timeout time.Duration, changed func(policy string)) *Settings {
	s := &Settings{redis: r, timeout: timeout, changed: changed, stop: make(chan struct{}), done: make(chan struct{})}
	go s.watch()
	return s
}

// MaxmemoryPolicy is what Redis does when its memory is full: on a cluster what
// any node does that is not noeviction. "" where nobody has said.
func (s *Settings) MaxmemoryPolicy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.policy
}

// Close ends the watching.
func (s *Settings) Close() {
	close(s.stop)
	<-s.done
}

func (s *Settings) watch() {
	defer close(s.done)
	for {
		next := settingsEvery
		if policy, err := s.ask(); err == nil {
			s.set(policy)
		} else if !redis.HasErrorPrefix(err, "") { // no answer at all: one that refuses will refuse again
			next = settingsSoon
		}
		select {
		case <-s.stop:
			return
		case <-time.After(next):
		}
	}
}

func (s *Settings) set(policy string) {
	s.mu.Lock()
	before := s.policy
	s.policy = policy
	s.mu.Unlock()
	if policy != before {
		s.changed(policy)
	}
}

func (s *Settings) ask() (policy string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	cluster, ok := s.redis.client.(*redis.ClusterClient)
	if !ok {
		return maxmemoryPolicy(ctx, s.redis.client)
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		one, err := maxmemoryPolicy(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		if policy == "" || policy == NoEviction {
			policy = one
		}
		return err
	})
	return policy, err
}

func maxmemoryPolicy(ctx context.Context, client redis.Cmdable) (string, error) {
	found, err := client.ConfigGet(ctx, "maxmemory-policy").Result()
	return found["maxmemory-policy"], err
}
