package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between a client and a server, and is as slow, deaf or broken
// as a test wants the network to be. What is set holds for the connections
// that exist as well as for new ones.
type Proxy struct {
	// Addr is host:port, URL the same as redis://.
	Addr, URL string

	listener net.Listener
	delay    atomic.Int64
	// What is lost is read and thrown away.
	requestsLost, repliesLost, refuses atomic.Bool

	mu     sync.Mutex
	target string
	conns  map[net.Conn]struct{}
	closed bool
	copies sync.WaitGroup
}

// NewProxy starts a proxy before a server; it ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.URL = "redis://" + p.Addr + "/0"
	p.copies.Add(1)
	go p.accept()
	t.Cleanup(p.close)
	return p
}

// Delay makes every reply come so much later; 0 as it comes.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// DropReplies lets requests through, and loses what the server says to them.
func (p *Proxy) DropReplies(on bool) { p.repliesLost.Store(on) }

// BlackHole loses everything in both directions and keeps the connections.
func (p *Proxy) BlackHole(on bool) {
	p.requestsLost.Store(on)
	p.repliesLost.Store(on)
}

// Refuse closes every new connection at once.
func (p *Proxy) Refuse(on bool) { p.refuses.Store(on) }

// SendTo sends new connections to another server; those that exist stay.
func (p *Proxy) SendTo(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Cut closes every connection; new ones are welcome.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Connections is how many clients are connected.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) / 2
}

func (p *Proxy) accept() {
	defer p.copies.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.refuses.Load() || !p.connect(client) {
			client.Close()
		}
	}
}

// connect joins a client to the server, and says whether that worked.
func (p *Proxy) connect(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	server, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil {
		return false
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.copies.Add(2)
	go p.pass(client, server, &p.requestsLost, nil)
	go p.pass(server, client, &p.repliesLost, &p.delay)
	return true
}

// pass carries bytes one way until either side ends.
func (p *Proxy) pass(from, to net.Conn, lost *atomic.Bool, delay *atomic.Int64) {
	defer p.copies.Done()
	defer p.forget(from, to)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && delay != nil {
			time.Sleep(time.Duration(delay.Load()))
		}
		if n > 0 && !lost.Load() {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) forget(both ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range both {
		c.Close()
		delete(p.conns, c)
	}
}

func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.copies.Wait()
}
