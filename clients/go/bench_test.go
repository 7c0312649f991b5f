package decider

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// What a successful call costs: the base alone, and through a Transport, which
// asks nobody then.
func BenchmarkRoundTrip(b *testing.B) {
	nothing := transportFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	b.Cleanup(server.Close)
	network := http.DefaultTransport.(*http.Transport).Clone()
	network.MaxIdleConnsPerHost = 16
	b.Cleanup(network.CloseIdleConnections)
	client := &Client{outcomesURL: "http://decider.example"}
	client.reporter.every = time.Hour
	b.Cleanup(func() { client.reporter.timer.Stop() })
	for _, base := range []struct {
		name string
		base http.RoundTripper
		url  string
	}{{"memory", nothing, "http://payments.example/x"}, {"loopback", network, server.URL}} {
		for _, through := range []struct {
			name string
			rt   http.RoundTripper
		}{{"bare", base.base}, {"transport", NewTransport(client, WithBase(base.base))}} {
			b.Run(base.name+"/"+through.name, func(b *testing.B) {
				b.ReportAllocs()
				r, err := http.NewRequest(http.MethodGet, base.url, nil)
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set("Accept", "application/json")
				for b.Loop() {
					response, err := through.rt.RoundTrip(r)
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
			})
		}
	}
}
