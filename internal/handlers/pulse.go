package handlers

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxStreams bounds the streams of one replica.
const maxStreams = 100

var errTooManyStreams = errors.New("all streams are taken")

// pulse is the one ticker of all streams. It beats while somebody watches, and
// costs nothing while nobody does.
type pulse struct {
	every    time.Duration
	newBeat  func() *beat
	mu       sync.Mutex
	watching int
	current  *beat
	stop     context.CancelFunc
}

// beat is one moment of the pulse. What is told of it is made by the first
// stream that wants it, once for all of them.
type beat struct {
	// whole is a snapshot with everything that is remembered, for who has just
	// come; news is one with what is new.
	whole, news func() []byte
	// next is closed when the beat after this one is there.
	next chan struct{}
}

// join begins to watch, at the beat that is there.
func (p *pulse) join() (*beat, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watching == maxStreams {
		return nil, errTooManyStreams
	}
	p.watching++
	if p.watching == 1 {
		var ctx context.Context
		ctx, p.stop = context.WithCancel(context.Background())
		p.current = p.newBeat()
		go p.run(ctx)
	}
	return p.current, nil
}

// leave ends watching; the last one stops the pulse.
func (p *pulse) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching--
	if p.watching == 0 {
		p.stop()
		p.current = nil
	}
}

// latest is the beat that is there now, for one who watches. A stream that was
// slow misses the beats between and nothing waits for it.
func (p *pulse) latest() *beat {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

func (p *pulse) run(ctx context.Context) {
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.advance(ctx)
		}
	}
}

func (p *pulse) advance(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return // the last one left meanwhile, and the pulse may be another's by now
	}
	before := p.current
	p.current = p.newBeat()
	close(before.next)
}
