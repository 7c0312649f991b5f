package decider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/retrydecider/decider/clients/go/internal/api"
)

// DefaultTimeout bounds a question to decider, connecting included. decider
// answers in about a millisecond, and within 55 ms while its store is away.
const DefaultTimeout = 75 * time.Millisecond

// maxAnswer is the most of an answer that is read: one for 256 dependencies is
// below 256 KiB, and a body that never ends must not fill the memory.
const maxAnswer = 1 << 20

// Client asks one decider, or several behind one address. It is safe for
// concurrent use and keeps connections open: make one for the program, share it
// and Close it at the end.
//
// The zero Client knows no decider: [Client.Ask] answers by the local rule alone.
type Client struct {
	decideURL, outcomesURL string

	http    *http.Client
	timeout time.Duration
	caller  string
	key     string

	health   health
	book     book
	reporter reporter
	tally    tally
}

// Option changes what [NewClient] makes.
type Option func(*Client)

// WithTimeout bounds each question by d instead of [DefaultTimeout]. A context
// that ends earlier is obeyed.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithCaller names who is asking in every attempt and report that names nobody.
func WithCaller(name string) Option { return func(c *Client) { c.caller = name } }

// WithKey says who is asking, to a decider that wants to know, by the key that
// decider key new has printed. It is sent as a Bearer token (RFC 6750 §2.1) and
// told nobody else.
func WithKey(key string) Option { return func(c *Client) { c.key = key } }

// WithHTTPClient sends through h, for a transport of your own: a client
// certificate, a key that changes while the program runs, a traceparent
// (examples/otel). h is not changed. Its transport must not itself be one that
// asks decider.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h
		c.http = &own
	}
}

// NewClient makes a client of the decider at baseURL, such as
// "http://127.0.0.1:8080"; a path before /v1 is kept. It does not connect: a
// decider that is away is an error of the first question.
func NewClient(baseURL string, opts ...Option) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("decider: base URL: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("decider: base URL %q: want http://HOST or https://HOST, with neither query nor fragment", base.Redacted())
	}
	c := &Client{
		decideURL:   base.JoinPath("v1", "decide").String(),
		outcomesURL: base.JoinPath("v1", "outcomes").String(),
		timeout:     DefaultTimeout,
	}
	c.reporter.every = DefaultReportInterval
	for _, opt := range opts {
		opt(c)
	}
	if c.timeout <= 0 {
		return nil, fmt.Errorf("decider: timeout %s: want more than 0", c.timeout)
	}
	if strings.ContainsFunc(c.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("decider: key: it holds what no key holds, such as a blank or the end of a line")
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	// A redirect would send the question elsewhere and cost a second timeout's worth.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// newTransport keeps more than net/http's two idle connections to one host:
// everything goes to one host here, and in an outage many ask at once.
func newTransport() *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if base, ok := http.DefaultTransport.(*http.Transport); ok {
		t = base.Clone()
	}
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 64
	return t
}

// CloseIdleConnections closes the connections that no question is using.
func (c *Client) CloseIdleConnections() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// Decide asks what to do after the failed attempt a. Where a.Remaining is nil
// and ctx has a deadline, what is left of that is the deadline of the call.
//
// The error is a [*Problem] where decider, or something before it, answered with
// anything but a decision; else the answer never came, or made no sense.
// errors.Is tells context.DeadlineExceeded and context.Canceled. Decide is never
// sent again by itself: a retry granted twice is charged twice. To ask again
// yourself, set a.DecisionID.
func (c *Client) Decide(ctx context.Context, a Attempt) (Decision, error) {
	if a.Caller == "" {
		a.Caller = c.caller
	}
	if a.Remaining == nil {
		if deadline, ok := ctx.Deadline(); ok {
			left := time.Until(deadline)
			a.Remaining = &left
		}
	}
	return c.put(ctx, &a)
}

// put puts the question as it stands.
func (c *Client) put(ctx context.Context, a *Attempt) (Decision, error) {
	var answer api.Decision
	if err := c.post(ctx, c.timeout, c.decideURL, a.document(), &answer); err != nil {
		return Decision{}, err
	}
	if !answer.Decision.Valid() {
		return Decision{}, fmt.Errorf("decider: the answer is no decision: it says %q", answer.Decision)
	}
	return newDecision(&answer), nil
}

// Report tells of the calls that needed no decision, and answers the state of
// each dependency in the order of the report. Its errors are those of
// [Client.Decide]. It is not sent again by itself; where r.ReportID is set, you
// may, and it counts once.
func (c *Client) Report(ctx context.Context, r OutcomeReport) ([]DependencyState, error) {
	return c.report(ctx, c.timeout, &r)
}

func (c *Client) report(ctx context.Context, timeout time.Duration, r *OutcomeReport) ([]DependencyState, error) {
	if r.Caller == "" {
		r.Caller = c.caller
	}
	var answer api.OutcomeAnswer
	if err := c.post(ctx, timeout, c.outcomesURL, r.document(), &answer); err != nil {
		return nil, err
	}
	return newDependencyStates(answer.Dependencies), nil
}

var errNoDecider = errors.New("decider: the zero Client knows no decider")

// post sends one document and reads the answer of a 200 into answer.
func (c *Client) post(ctx context.Context, timeout time.Duration, to string, document, answer any) error {
	if to == "" {
		return errNoDecider
	}
	body, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("decider: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("decider: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, application/problem+json")
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("decider: no answer (waiting at most %s): %w", timeout, err)
	}
	defer response.Body.Close()
	text, err := readAnswer(response.Body)
	if err != nil {
		return fmt.Errorf("decider: %s, but its body: %w", response.Status, err)
	}
	if response.StatusCode != http.StatusOK {
		return newProblem(response, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("decider: the answer is not what the contract says: %w", err)
	}
	return nil
}

var errAnswerTooLong = errors.New("it is longer than 1 MiB")

// readAnswer reads a body to its end, so that its connection can be used again.
func readAnswer(body io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxAnswer {
		return nil, errAnswerTooLong
	}
	return text, nil
}

// newProblem reads a problem document, or makes one of an answer that is none.
func newProblem(response *http.Response, text []byte) *Problem {
	p := &Problem{}
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	var document api.Problem
	if strings.EqualFold(strings.TrimSpace(kind), "application/problem+json") && json.Unmarshal(text, &document) == nil {
		p = problemOf(&document)
	}
	p.Status = response.StatusCode
	if p.Title == "" {
		p.Title = http.StatusText(response.StatusCode)
	}
	return p
}
