package handlers

import (
	"sync"
	"time"
)

// Sampler lets through one of what happens in each span of time, so that nobody
// can fill a log.
type Sampler struct {
	mu      sync.Mutex
	last    time.Time
	skipped int64
}

// Next says whether this one is let through, and how many were not since the
// last that was.
func (s *Sampler) Next(now time.Time, span time.Duration) (skipped int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := now.Sub(s.last); since >= 0 && since < span {
		s.skipped++
		return 0, false
	}
	s.last, skipped, s.skipped = now, s.skipped, 0
	return skipped, true
}
