package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/retrydecider/decider/internal/handlers"
)

// otlp sends spans to a collector: OTLP over HTTP with protobuf, as the variables
// of OpenTelemetry say. It is the client of an otlptrace.Exporter. The library's
// own brings all of gRPC along, whose settings it shares, and that was five
// megabytes of the binary.
type otlp struct {
	url, host string // the url may hold a password, and is told to nobody
	headers   http.Header
	gzip      bool
	pause     time.Duration // before spans that could not be taken are sent again
	unsent    func(error)   // hears of spans that are to be sent again; nil: nobody does
	web       *http.Client
}

const (
	otlpEndpoint = "http://localhost:4318"
	otlpTimeout  = 10 * time.Second
	// otlpPause is doubled each time, and serves where the collector names none.
	otlpPause = time.Second
)

// newOTLP reads the variables. Those that name traces win over those for
// everything.
func newOTLP(getenv func(string) string) (*otlp, error) {
	setting := func(name string) string {
		if own := getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); own != "" {
			return own
		}
		return getenv("OTEL_EXPORTER_OTLP_" + name)
	}
	c := &otlp{pause: otlpPause, headers: http.Header{"Content-Type": {"application/x-protobuf"}}}
	timeout, err := otlpTimeoutOf(setting("TIMEOUT"))
	if err != nil {
		return nil, err
	}
	if err := c.readHeaders(setting("HEADERS")); err != nil {
		return nil, err
	}
	switch compression := setting("COMPRESSION"); compression {
	case "", "none":
	case "gzip":
		c.gzip = true
		c.headers.Set("Content-Encoding", "gzip")
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is gzip or none, not %q", compression)
	}
	config, err := otlpTLS(setting("CERTIFICATE"), setting("CLIENT_CERTIFICATE"), setting("CLIENT_KEY"))
	if err != nil {
		return nil, err
	}
	c.web = &http.Client{Timeout: timeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true}}
	if err := c.setURL(getenv); err != nil {
		return nil, err
	}
	return c, nil
}

// setURL takes an endpoint of traces as it is, and one of everything as what
// /v1/traces is below.
func (c *otlp) setURL(getenv func(string) string) error {
	name, endpoint := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	below := endpoint == ""
	if below {
		name, endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT", getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	if endpoint == "" {
		endpoint = otlpEndpoint
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("%s is not http://host:port or https://host:port", name)
	}
	c.host = at.Host
	if below {
		at = at.JoinPath("v1", "traces")
	}
	c.url = at.String()
	return nil
}

func otlpTimeoutOf(text string) (time.Duration, error) {
	if text == "" {
		return otlpTimeout, nil
	}
	ms, err := strconv.ParseInt(text, 10, 32)
	if err != nil || ms <= 0 {
		return 0, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is a number of ms, not %q", text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// readHeaders reads "name=value,name=value", the values percent-encoded. They
// may hold secrets, and are in no error.
func (c *otlp) readHeaders(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || err != nil || name == "" {
			return errors.New("OTEL_EXPORTER_OTLP_HEADERS is name=value,name=value, the values percent-encoded")
		}
		c.headers.Add(name, plain)
	}
	return nil
}

// otlpTLS trusts the authorities of a file, and shows a certificate; nil where
// nothing is said.
func otlpTLS(authorities, certificate, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		text, err := os.ReadFile(authorities)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in %s", authorities)
		}
	}
	if certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Start has nothing to begin.
func (c *otlp) Start(context.Context) error { return nil }

// Stop lets go of the connections.
func (c *otlp) Stop(context.Context) error {
	c.web.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans until they are taken or refused, or the context ends.
// TracesData has the form on the wire of the request that the protocol names.
func (c *otlp) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.gzip {
		body = gzipped(body)
	}
	for pause := c.pause; ; pause *= 2 {
		wait, err := c.post(ctx, body)
		if err == nil || wait < 0 {
			return err
		}
		if c.unsent != nil {
			c.unsent(err)
		}
		select {
		case <-time.After(max(wait, pause)):
		case <-ctx.Done():
			return err
		}
	}
}

// post sends a body once. Where it may be sent again, after is how long the
// collector asks to wait for that; else it is below 0.
func (c *otlp) post(ctx context.Context, body []byte) (after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	r.Header = c.headers
	answer, err := c.web.Do(r)
	if err != nil {
		return 0, fmt.Errorf("no answer of the collector: %w", withoutURL(err))
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection serves again
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return -1, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseInt(answer.Header.Get("Retry-After"), 10, 16) // a date: the own pause serves
		after = time.Duration(max(seconds, 0)) * time.Second
	default:
		after = -1
	}
	return after, fmt.Errorf("the collector answered %s", answer.Status)
}

// withoutURL is what became of a request without its URL.
func withoutURL(err error) error {
	if about, ok := errors.AsType[*url.Error](err); ok {
		return about.Err
	}
	return err
}

// seldom logs the first of many like failures at once, and then one in a while.
type seldom struct {
	handlers.Sampler
	log     *slog.Logger
	message string
	every   time.Duration
}

func (s *seldom) warn(err error) {
	if before, ok := s.Next(time.Now(), s.every); ok {
		s.log.Warn(s.message, "error", err, "not_logged_before", before)
	}
}

func gzipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // to memory
	_ = w.Close()
	return b.Bytes()
}
