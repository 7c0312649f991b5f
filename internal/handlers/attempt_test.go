package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/retrydecider/decider/internal/decide"
)

// readAttempt reads a body as POST /v1/decide does.
func readAttempt(body []byte) (decide.Attempt, error) {
	x := new(exchange)
	r, err := http.NewRequest(http.MethodPost, "/v1/decide", bytes.NewReader(body))
	if err != nil {
		return decide.Attempt{}, err
	}
	r.Header.Set("Content-Type", jsonType)
	a, err := x.receiveAttempt(r)
	if err != nil {
		return decide.Attempt{}, err
	}
	return *a, nil
}

// filterAccepts asks kin-openapi's filter, which goes by the document alone.
func filterAccepts(t interface{ Fatal(...any) }, body []byte) bool {
	r, err := http.NewRequest(http.MethodPost, "/v1/decide", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", jsonType)
	route, params, err := contractRouter.FindRoute(r)
	if err != nil {
		t.Fatal(err)
	}
	err = openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	})
	return err == nil
}

// member is one member of a generated body: its name and its value, both as
// they are written.
type member struct{ name, value string }

func bodyOf(members []member) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", m.name, m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Values that are near the bounds of some rule, or of another type.
var (
	numbers = rapid.OneOf(
		rapid.SampledFrom([]string{"0", "-0", "1", "-1", "1.0", "1e0", "10E1", "1.5", "99", "100", "999", "999.0", "1000", "503", "5.03e2", "2147483647", "2147483648",
			"9007199254740991", "9007199254740991.4", "9007199254740992", "9007199254740993", "-9007199254740991", "-9007199254740992", "9223372036854775808",
			"18446744073709551616", "1e400", "-1e400", "1e-400", "0.99999999999999999999", "1.00000000000000000001", "123456789012345", "1234567890123456"}),
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.Int64().Draw(t, "n")) }),
		rapid.Custom(func(t *rapid.T) string {
			text, _ := json.Marshal(rapid.Float64Range(-1e17, 1e17).Draw(t, "x"))
			return string(text)
		}),
	)
	texts = rapid.Custom(func(t *rapid.T) string {
		s := rapid.OneOf(
			rapid.SampledFrom([]string{"", "payments", "a/b:c.d_e-f", "-p", ".p", "p ", "p}", "GET", "get", "M-SEARCH", "GE T", "GET\n", "timeout", "TIMEOUT", "canceled",
				"UNAVAILABLE", "unavailable", "OK", "2", "Sun, 06 Nov 1994 08:49:37 GMT", "\u0000", "é", "payé", "😀", "id_1-A", "K", "ſ",
				strings.Repeat("n", 128), strings.Repeat("n", 129), strings.Repeat("i", 64), strings.Repeat("i", 65), strings.Repeat("M", 64), strings.Repeat("M", 65), strings.Repeat("é", 64), strings.Repeat("😀", 65),
				strings.Repeat("9", 4096), strings.Repeat("9", 4097), strings.Repeat("é", 4096), strings.Repeat("é", 4097)}),
			rapid.StringMatching(`[A-Za-z0-9._:/!~*'()#$%& -]{0,140}`),
			rapid.String(),
		).Draw(t, "text")
		if rapid.Bool().Draw(t, "escaped") && s != "" && s[0] < utf8.RuneSelf {
			return fmt.Sprintf(`"\u%04x%s`, s[0], quoted(s[1:])[1:])
		}
		return quoted(s)
	})
	headerObjects = rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfNDistinct(rapid.OneOf(
			rapid.SampledFrom([]string{"retry-after", "Retry-After", "date", "DATE", "x-a", "", "a/b", "K", "K", "k"}), rapid.StringMatching(`[a-z]{1,3}`)), 0, 40,
			rapid.ID[string]).Draw(t, "headers")
		var members []member
		for _, name := range names {
			value := `"v"`
			if rapid.IntRange(0, 30).Draw(t, "odd") == 0 {
				value = anything.Draw(t, "value")
			}
			members = append(members, member{quoted(name), value})
		}
		return string(bodyOf(members))
	})
	anything = rapid.OneOf(numbers, texts, rapid.SampledFrom([]string{"null", "true", "false", "[]", "{}", `[1,{"a":[null]}]`, `{"a":{"b":"c"}}`}))
)

// values are those that suit a member most of the time.
func values(t *rapid.T, name string) string {
	if rapid.IntRange(0, 12).Draw(t, "other") == 0 {
		return anything.Draw(t, "value")
	}
	switch name {
	case "dependency", "caller", "method", "decision_id", "retry_after", "response_date":
		return texts.Draw(t, "text")
	case "outcome":
		return quoted(rapid.SampledFrom(append(decide.Outcomes(), "lost")).Draw(t, "outcome"))
	case "grpc_status":
		return quoted(rapid.SampledFrom(append(decide.GRPCCodes(), "LOST")).Draw(t, "code"))
	case "idempotent", "has_idempotency_key", "retried_below":
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "boolean")
	case "headers":
		return headerObjects.Draw(t, "headers")
	}
	return numbers.Draw(t, "number")
}

// attempts are bodies that are valid about as often as not.
var attempts = rapid.Custom(func(t *rapid.T) []member {
	var members []member
	add := func(name, value string) { members = append(members, member{quoted(name), value}) }
	if rapid.IntRange(0, 20).Draw(t, "complete") > 0 {
		add("dependency", `"payments"`)
		add("method", `"GET"`)
		add("status", "503")
	}
	known := make([]string, 0, len(attemptMembers))
	for name := range contract.Components.Schemas["Attempt"].Value.Properties {
		known = append(known, name)
	}
	names := rapid.OneOf(rapid.SampledFrom(sorted(known)), rapid.SampledFrom(sorted(known)), rapid.SampledFrom([]string{"Attempt", "retry-after", "x", "STATUS", "a/b~c"}))
	for range rapid.IntRange(0, 4).Draw(t, "more") {
		name := names.Draw(t, "name")
		value := values(t, name)
		at := -1
		for i, m := range members {
			if m.name == quoted(name) {
				at = i
			}
		}
		if at >= 0 {
			members[at].value = value
		} else {
			add(name, value)
		}
	}
	return members
})

// The rules that OpenAPI 3.0 cannot say. A body that breaks one of them is
// refused here though the filter accepts it; everything else is the same.
//
//   - exactly one of status, outcome and grpc_status
//   - no two headers that are equal but for case
//   - no member twice, at any depth
//   - no nesting deeper than 64
//   - valid UTF-8, and no half of a surrogate pair
//   - nothing behind the value
func beyondOpenAPI(err error, body []byte) bool {
	var syntax *notJSONError
	if errors.As(err, &syntax) {
		return true // the generated bodies of the property are all JSON; the fuzz target's are not
	}
	var wrong *notValidError
	if !errors.As(err, &wrong) {
		return false
	}
	for _, each := range wrong.errors {
		trio := each.Field == "/status" && strings.HasPrefix(each.Detail, "exactly one")
		twice := strings.HasPrefix(each.Field, "/headers/") && strings.HasPrefix(each.Detail, "is given twice")
		if !trio && !twice {
			return false
		}
	}
	return utf8.Valid(body)
}

// What the document says is what is enforced: the reader accepts and refuses
// exactly what kin-openapi's filter does.
func TestReaderAgreesWithTheFilter(t *testing.T) {
	t.Parallel()
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		body := bodyOf(attempts.Draw(t, "members"))
		_, err := readAttempt(body)
		var syntax *notJSONError
		if errors.As(err, &syntax) {
			t.Fatalf("not JSON: %v: %s", err, body)
		}
		switch filter := filterAccepts(t, body); {
		case filter && err != nil && !beyondOpenAPI(err, body):
			t.Fatalf("the filter accepts, the reader says %v: %s", err, body)
		case !filter && err == nil:
			t.Fatalf("the filter refuses, the reader accepts: %s", body)
		}
		if err == nil {
			accepted++
		} else {
			refused++
		}
	})
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted == 0 || refused == 0 {
		t.Errorf("%d accepted, %d refused: the property shows nothing", accepted, refused)
	}
}

// A few bodies of which the filter's judgement is surprising.
func TestReaderAgreesWithTheFilterOn(t *testing.T) {
	t.Parallel()
	for _, member := range []string{
		`"attempt":1.0`, `"attempt":1e0`, `"attempt":0.1e1`, `"attempt":1.00000000000000000001`, `"attempt":0.99999999999999999999`, `"attempt":1.5`,
		`"remaining_ms":9007199254740991.4`, `"remaining_ms":9007199254740991.5`, `"remaining_ms":9007199254740993`, `"remaining_ms":-9007199254740992`,
		`"remaining_ms":1e400`, `"remaining_ms":-1e400`, `"remaining_ms":1e-400`, `"min_attempt_ms":-0`, `"min_attempt_ms":-0.0`, `"attempt":-0`,
		`"caller":"p\n"`, `"caller":""`, `"decision_id":"a\n"`, `"retry_after":""`, `"response_date":""`, `"headers":{}`, `"headers":{"":""}`,
		`"caller":null`, `"idempotent":null`, `"headers":null`, `"attempt":null`, `"attempt":"1"`, `"attempt":true`, `"headers":[]`, `"idempotent":"true"`,
	} {
		body := []byte(`{"dependency":"p","method":"GET","status":503,` + member + `}`)
		_, err := readAttempt(body)
		if filter := filterAccepts(t, body); filter != (err == nil) {
			t.Errorf("%s: the filter accepts: %t, the reader says %v", member, filter, err)
		}
	}
}

func TestReaderKeepsWhatWasSent(t *testing.T) {
	t.Parallel()
	got, err := readAttempt([]byte(`{"dependency":"a/b","method":"purge","outcome":"connection_reset","idempotent":false,"has_idempotency_key":true,
		"retry_after":"2","response_date":"now","headers":{"X-Should-Retry":"true","date":"then","x-other":"1","Ratelimit-Reset":"\u0035"},"attempt":2.0,"remaining_ms":-5,
		"min_attempt_ms":0,"previous_delay_ms":7,"caller":"checkout","inbound_attempt":3,"retried_below":true,"decision_id":"id-1"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := decide.Attempt{Dependency: "a/b", Method: "purge", Failure: decide.ConnectionReset, Idempotent: decide.No, HasIdempotencyKey: true,
		Number: 2, Remaining: decide.Some(-5), MinAttempt: decide.Some(0), PreviousDelay: 7, Caller: "checkout", InboundAttempt: 3, RetriedBelow: true, DecisionID: "id-1"}
	want.Headers.Set(decide.RetryAfterHeader, "2")
	want.Headers.Set(decide.DateHeader, "now")
	want.Headers.Set(decide.XShouldRetryHeader, "true")
	want.Headers.Set(decide.RateLimitResetHeader, "5")
	if got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	for _, each := range append(decide.Outcomes(), decide.GRPCCodes()...) {
		name := "outcome"
		if strings.ToUpper(each) == each {
			name = "grpc_status"
		}
		a, err := readAttempt([]byte(`{"dependency":"p","method":"GET","` + name + `":"` + each + `"}`))
		if err != nil || a.Failure.String() != each {
			t.Errorf("%s: %v, %v", each, a.Failure, err)
		}
	}
}

// textOf is how many bytes of text a value holds, whatever it is made of.
func textOf(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			n += textOf(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			n += textOf(v.Index(i))
		}
	}
	return n
}

// A decision is kept in the ring and in the queue of the decision log, so that
// whatever a client writes into it is bounded.
func TestWhatIsKeptOfAnAttemptIsBounded(t *testing.T) {
	t.Parallel()
	var headers []string
	for _, header := range append(decide.HonourableHeaders(), decide.DateHeader) {
		headers = append(headers, quoted(header.String())+":"+quoted(strings.Repeat("é", 50_000)))
	}
	body := func(method string) string {
		return `{"dependency":"` + strings.Repeat("d", 128) + `","caller":"` + strings.Repeat("c", 128) + `","decision_id":"` + strings.Repeat("i", 64) +
			`","method":"` + method + `","outcome":"timeout","headers":{` + strings.Join(headers, ",") + `}}`
	}
	config := testConfig(new(fakeFleet))
	var kept ring
	texts := make(chan int, 1)
	config.Decided = func(at time.Time, a *decide.Attempt, d *decide.Decision) {
		kept.add(at, a, d)
		texts <- textOf(reflect.ValueOf(*a))
	}
	c := newCaller(t, newHandler(t, config))
	got := c.post("/v1/decide/batch", `{"attempts":[`+body(strings.Repeat("M", maxMethod))+`]}`)
	if got.status != http.StatusOK || len(texts) != 1 {
		t.Fatalf("%d %.300s", got.status, got.body)
	}
	if n, most := <-texts, 2*128+64+maxMethod+len(headers)*keptHeader; n > most {
		t.Errorf("an attempt keeps %d bytes of text, want at most %d", n, most)
	}
	if n := textOf(reflect.ValueOf(kept.slots[1])); n == 0 || n > 1024 {
		t.Errorf("a decision that was made keeps %d bytes of text", n)
	}
	for _, long := range []int{maxMethod + 1, 100_000} {
		answer := string(c.post("/v1/decide/batch", `{"attempts":[`+body(strings.Repeat("M", long))+`]}`).body)
		if !strings.Contains(answer, `"status":422`) || !strings.Contains(answer, `"field":"/attempts/0/method"`) || len(answer) > 1024 {
			t.Errorf("a method of %d letters: %.300s", long, answer)
		}
	}
}

// A value that is cut must not say what the whole one does not.
func TestALongHeaderStaysMalformed(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		strings.Repeat("9", 257), strings.Repeat("9", 300), strings.Repeat("😀", 300), "true" + strings.Repeat(" ", 300) + "x", "5" + strings.Repeat(" ", 300) + "x",
		"Sun, 06 Nov 1994 08:49:37 GMT" + strings.Repeat(" ", 300) + "x",
	} {
		kept := headerValue([]byte(value))
		if !utf8.ValidString(kept) || len(kept) > keptHeader {
			t.Errorf("%q is kept as %q", value, kept)
		}
		if _, ok := decide.ParseRetryAfter(kept, epoch); ok {
			t.Errorf("%q is read as a wait", kept)
		}
		for _, header := range append(decide.HonourableHeaders(), decide.DateHeader) {
			a := &decide.Attempt{Dependency: "payments", Method: "GET", Failure: 503}
			a.Headers.Set(header, value)
			cut := *a
			cut.Headers.Set(header, kept)
			p := testPolicy("payments")
			p.RetryAfter.Headers = []decide.Header{header}
			half := func() float64 { return 0.5 }
			if want, got := decide.NewPlan(p, a, epoch, half), decide.NewPlan(p, &cut, epoch, half); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q becomes\n%+v, whole it is\n%+v", header, value, got, want)
			}
		}
	}
}

// The document's lists are decide's.
func TestDocumentHasDecidesWords(t *testing.T) {
	t.Parallel()
	property := func(schema, name string) any {
		p := contract.Components.Schemas[schema].Value.Properties[name].Value
		if p.Enum != nil {
			return p.Enum
		}
		return p.Extensions["x-extensible-enum"]
	}
	reasons := []any{}
	for _, reason := range decide.Reasons() {
		reasons = append(reasons, reason.String())
	}
	for _, row := range []struct {
		schema, member string
		want           []any
	}{
		{"Attempt", "outcome", anys(decide.Outcomes())},
		{"Attempt", "grpc_status", anys(decide.GRPCCodes())},
		{"Decision", "reason", reasons},
		{"Decision", "retry_after", []any{"absent", "unused", "used", "shorter_than_backoff", "too_long", "malformed"}},
	} {
		if diff := cmp.Diff(row.want, property(row.schema, row.member)); diff != "" {
			t.Errorf("%s.%s: %s", row.schema, row.member, diff)
		}
	}
	for _, strategy := range decide.Strategies() {
		if list := fmt.Sprint(property("Backoff", "strategy")); !strings.Contains(list, strategy) {
			t.Errorf("no strategy %s in %s", strategy, list)
		}
	}
	if diff := cmp.Diff(sorted(keys(contract.Components.Schemas["Attempt"].Value.Properties)), sorted(keys(attemptMembers))); diff != "" {
		t.Errorf("members of an Attempt: %s", diff)
	}
	answer := sorted(append(keys(contract.Components.Schemas["Decision"].Value.Properties), keys(contract.Components.Schemas["Problem"].Value.Properties)...))
	if diff := cmp.Diff(answer, sorted(keys(contract.Components.Schemas["BatchAnswer"].Value.Properties))); diff != "" {
		t.Errorf("members of a BatchAnswer: %s", diff)
	}
}

func TestReaderMakesLittleGarbage(t *testing.T) {
	x := new(exchange)
	body := []byte(failed)
	r, err := http.NewRequest(http.MethodPost, "/v1/decide", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", jsonType)
	source := bytes.NewReader(body)
	r.Body, r.ContentLength = nopCloser{source}, int64(len(body))
	allocs := testing.AllocsPerRun(100, func() {
		source.Reset(body)
		if _, err := x.receiveAttempt(r); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 2 {
		t.Errorf("%.0f allocations to read an attempt", allocs)
	}
}

// FuzzAttempt holds the reader to its word on any bytes at all: it never
// panics, what it accepts the filter accepts, and what it refuses is refused
// with a place in the body or as no JSON.
func FuzzAttempt(f *testing.F) {
	for _, seed := range []string{failed, "", "null", "[]", `{}`, `{"a":{"a":1,"a":2}}`, `{"headers":{"A":"1","a":"2"}}`, "{\"x\":\"\xff\"}", `{"x":"\ud800"}`,
		`{"dependency":"p","method":"GET","outcome":"timeout","attempt":1e0}`, strings.Repeat("[", 100), failed + "x", failed + failed} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := readAttempt(body)
		filter := filterAccepts(t, body)
		switch {
		case err == nil && !filter:
			t.Errorf("the filter refuses, the reader accepts: %q", body)
		case err != nil && filter && !beyondOpenAPI(err, body):
			t.Errorf("the filter accepts, the reader says %v: %q", err, body)
		}
		if err == nil {
			if !json.Valid(body) {
				t.Errorf("accepted, and not JSON: %q", body)
			}
			return
		}
		if p := problemFor(err); p.Status != http.StatusBadRequest && (p.Status != http.StatusUnprocessableEntity || len(p.Errors) == 0) && p.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("problem %+v for %q", p, body)
		}
	})
}
