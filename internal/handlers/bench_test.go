package handlers

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
	"github.com/retrydecider/decider/internal/handlers/bareecho"
)

// The two benchmarks stand side by side: the same JSON in and out over the same
// kind of connections. What BenchmarkDecideHTTP takes longer is the decision,
// the checks that encoding/json does not make, and the metrics.

const benchBody = `{"dependency":"payments","method":"GET","status":503,"retry_after":"2","attempt":1,"remaining_ms":8000,"caller":"checkout"}`

// BenchmarkDecideHTTP is the whole of POST /v1/decide, with state in memory.
func BenchmarkDecideHTTP(b *testing.B) {
	benchmarkHandler(b, onFleet(b, inMemory(b)(), ""))
}

// BenchmarkBareEcho decodes and encodes the same JSON with encoding/json and
// does nothing else.
func BenchmarkBareEcho(b *testing.B) {
	benchmarkHandler(b, bareecho.New(benchAnswer(b)))
}

// benchAnswer is what decider answers to benchBody.
func benchAnswer(b *testing.B) (d gen.Decision) {
	b.Helper()
	a, err := readAttempt([]byte(benchBody))
	if err != nil {
		b.Fatal(err)
	}
	decision, err := testConfig(new(fakeFleet)).Decider.Decide(b.Context(), &a)
	if err != nil || !decision.Retry() {
		b.Fatal(err, decision)
	}
	decodeWhole(b, appendDecision(nil, &decision), &d)
	return d
}

// benchmarkHandler asks over loopback connections that stay open, with several
// clients at once.
func benchmarkHandler(b *testing.B, h http.Handler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { _ = server.Close() })
	var request bytes.Buffer
	r, err := http.NewRequest(http.MethodPost, "http://"+l.Addr().String()+"/v1/decide", bytes.NewReader([]byte(benchBody)))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", jsonType)
	if err := r.Write(&request); err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) { askForever(b, l.Addr().String(), request.Bytes(), pb.Next) })
}

// askForever writes one request after another to a connection of its own and
// reads the answers. It is cheaper than net/http's client, so that what is
// measured is the server.
func askForever(b *testing.B, address string, request []byte, next func() bool) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Close()
	answer := make([]byte, 8<<10)
	for next() {
		if _, err := conn.Write(request); err != nil {
			b.Error(err)
			return
		}
		n, err := readAnswer(conn, answer)
		if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200 ")) {
			b.Errorf("%v: %s", err, answer[:n])
			return
		}
	}
}

// readAnswer reads until the closing brace of an answer's object.
func readAnswer(conn net.Conn, into []byte) (n int, err error) {
	for {
		got, err := conn.Read(into[n:])
		n += got
		text := bytes.TrimRight(into[:n], "\n")
		if bytes.Contains(text, []byte("\r\n\r\n{")) && bytes.HasSuffix(text, []byte("}")) && bytes.Count(text, []byte("{")) == bytes.Count(text, []byte("}")) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if n == len(into) {
			return n, io.ErrShortBuffer
		}
	}
}

// BenchmarkReadAttempt is the reading alone.
func BenchmarkReadAttempt(b *testing.B) {
	x := new(exchange)
	source := bytes.NewReader([]byte(benchBody))
	r, err := http.NewRequest(http.MethodPost, "/v1/decide", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", jsonType)
	r.Body, r.ContentLength = nopCloser{source}, source.Size()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = source.Seek(0, io.SeekStart)
		if _, err := x.receiveAttempt(r); err != nil {
			b.Fatal(err)
		}
	}
}

var _ decide.Fleet = (*fakeFleet)(nil)

// BenchmarkDecideHandler is POST /v1/decide without the network and net/http.
func BenchmarkDecideHandler(b *testing.B) {
	benchmarkServe(b, newHandler(b, testConfig(new(fakeFleet))), "/v1/decide", benchBody)
}

// BenchmarkBatchHandler is the same for a hundred attempts at once; an op is one of them.
func BenchmarkBatchHandler(b *testing.B) {
	const items = 100
	body := `{"attempts":[` + strings.Repeat(benchBody+",", items-1) + benchBody + `]}`
	b.Run("of=100", func(b *testing.B) {
		benchmarkServe(b, newHandler(b, testConfig(new(fakeFleet))), "/v1/decide/batch", body)
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*items), "ns/attempt")
	})
}

// benchmarkServe hands one request to the handler again and again.
func benchmarkServe(b *testing.B, h http.Handler, path, body string) {
	source := strings.NewReader(body)
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r.Header.Set("Content-Type", jsonType)
	r.ContentLength = source.Size()
	w := &discarded{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		source.Reset(body)
		r.Body = io.NopCloser(source)
		h.ServeHTTP(w, r)
	}
	if w.status != http.StatusOK {
		b.Fatalf("answered %d", w.status)
	}
}

// discarded is an answer of which only the status is kept.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(status int)      { d.status = status }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
