package handlers

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// What clients make net/http say is told once a second, a handshake that does not
// come about is a refusal, and a look at the port is none.
func TestServerLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := epoch
	config := testConfig(new(fakeFleet))
	config.Log, config.Now = slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now }
	api, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	said := api.ServerLog()
	flood := func() {
		for i := range 300 {
			said.Printf("http: TLS handshake error from 127.0.0.1:%d: tls: failed to verify certificate: x509: certificate has expired", i)
			said.Printf("http: TLS handshake error from [::1]:%d: EOF", i)
			said.Printf("http: TLS handshake error from [::1]:%d: read tcp [::1]:1->[::1]:2: read: connection reset by peer", i)
			said.Printf("http2: server: error reading preface from client 127.0.0.1:%d: bogus greeting", i)
		}
	}
	flood()
	now = now.Add(time.Second)
	flood()
	said.Printf("http: panic serving 127.0.0.1:1: a defect\ngoroutine 1")
	for line, want := range map[string]int{
		`level=WARN msg="a request was refused" why=handshake from=127.0.0.1 not_logged_before=0 cause="tls: failed`: 1,
		`why=handshake from=127.0.0.1 not_logged_before=299`:                                                         1, "why=handshake": 2, "EOF": 0, "reset": 0,
		`level=WARN msg="http2: server: error reading preface`: 2, `bogus greeting" not_logged_before=299`: 1, `level=ERROR msg="http: panic serving`: 1, "\n": 5,
	} {
		if n := strings.Count(log.String(), line); n != want {
			t.Errorf("%d of %q, want %d:\n%s", n, line, want, &log)
		}
	}
	if text, want := string(newCaller(t, api).get("/metrics").body), fmt.Sprintf("decider_requests_refused_total{why=%q} 600\n", "handshake"); !strings.Contains(text, want) {
		t.Errorf("no %s", want)
	}
}
