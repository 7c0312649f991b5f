package decide_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/policy"
)

// vectorsDir holds the contract's facts and numbers as data, for every
// implementation of it. A file has a group, a policy's body and cases.
const vectorsDir = "../../testdata/vectors"

// vectorFile is one file of vectors; its kind says what its cases are.
type vectorFile struct {
	Group, Kind string
	Policy      json.RawMessage
	Cases       []json.RawMessage
}

// vectorFleet is a fleet whose bucket a vector can set and read.
type vectorFleet interface {
	decide.Fleet
	// Report counts original calls that needed no decision.
	Report(o *decide.Outcome)
	// SetTokens leaves the bucket with so many millionths, all of now.
	SetTokens(bucket string, p *decide.Policy, tokens decide.Micro)
	// Tokens are in the bucket now, all that was told counted.
	Tokens(bucket string, p *decide.Policy) decide.Micro
}

// newVectorFleet makes a fresh fleet that lives by the clock it is given.
type newVectorFleet func(t *testing.T, now func() time.Time) vectorFleet

func TestVectors(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(vectorsDir, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors in %s: %v", vectorsDir, err)
	}
	fleets := vectorFleets(t)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			file := readVectors(t, path)
			if file.Kind == "stream" || file.Kind == "table" {
				runNumbers(t, file)
				return
			}
			p, err := policy.ParseRule(file.Policy)
			if err != nil {
				t.Fatal(err)
			}
			for name, newFleet := range fleets {
				t.Run(name, func(t *testing.T) {
					run := vectorRun{policy: p, newFleet: newFleet}
					for _, raw := range file.Cases {
						switch file.Kind {
						case "":
							run.decision(t, strictly[decisionCase](t, raw))
						case "sequence":
							run.sequence(t, strictly[sequenceCase](t, raw))
						default:
							t.Fatalf("kind %q is not known", file.Kind)
						}
					}
				})
			}
		})
	}
}

func readVectors(t *testing.T, path string) (file vectorFile) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	return file
}

// strictly reads a case whose every member is known, so that none is skipped.
func strictly[T any](t *testing.T, raw json.RawMessage) (value T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return value
}

// decisionCase is one attempt on a fresh state.
type decisionCase struct {
	ID      string
	Attempt json.RawMessage
	// Random are the floats in order of use; absent: any must do.
	Random *[]float64
	// TokensBefore: absent, the bucket is full.
	TokensBefore json.Number `json:"tokens_before"`
	Now          time.Time
	Expect       map[string]any
	RestsOn      []string `json:"rests_on"`
	Note         string
}

// sequenceCase is a script on one bucket that starts full.
type sequenceCase struct {
	ID    string
	Steps []struct {
		Do      string
		Attempt json.RawMessage
		MS      int64
		Repeat  int
	}
	Expect struct {
		Retry       int
		GiveUp      map[string]int `json:"give_up"`
		TokensAfter json.Number    `json:"tokens_after"`
	}
}

// vectorRun runs cases of one policy over one sort of fleet.
type vectorRun struct {
	policy   *decide.Policy
	newFleet newVectorFleet
}

const vectorBucket = "bucket of payments" // as onePolicy names it

func (r vectorRun) decision(t *testing.T, c decisionCase) {
	t.Run(c.ID, func(t *testing.T) {
		chances := map[string]func() float64{"given": nil}
		if c.Random == nil {
			random := decide.NewMulberry32(2026)
			chances = map[string]func() float64{"0": always(0), "0.5": always(0.5), "0.999999": always(0.999999), "seeded": random.Float64}
		}
		now := c.Now
		if now.IsZero() {
			now = noon
		}
		for name, random := range chances {
			if random == nil {
				random = script(t, *c.Random...)
			}
			fleet := r.newFleet(t, func() time.Time { return now })
			if c.TokensBefore != "" {
				fleet.SetTokens(vectorBucket, r.policy, micro(t, c.TokensBefore))
			}
			d := decider(r.policy, fleet)
			d.Now, d.Random = func() time.Time { return now }, random
			got := members(mustDecide(t, d, readAttempt(t, c.Attempt)))
			got["tokens_after"] = fleet.Tokens(vectorBucket, r.policy)
			for member, want := range c.Expect {
				if complaint := compare(t, got, member, want); complaint != "" {
					t.Errorf("with chance %s: %s: %s", name, complaint, got["message"])
				}
			}
		}
	})
}

func (r vectorRun) sequence(t *testing.T, c sequenceCase) {
	t.Run(c.ID, func(t *testing.T) {
		now := noon
		clock := func() time.Time { return now }
		fleet := r.newFleet(t, clock)
		d := decider(r.policy, fleet)
		d.Now = clock
		retries, giveUps := 0, map[string]int{}
		ask := func(a *decide.Attempt) bool {
			decision := mustDecide(t, d, a)
			if decision.Retry() {
				retries++
			} else {
				giveUps[decision.Reason.String()]++
			}
			return decision.Retry()
		}
		for _, step := range c.Steps {
			for range max(step.Repeat, 1) {
				switch step.Do {
				case "decide":
					ask(readAttempt(t, step.Attempt))
				case "call":
					a := readAttempt(t, step.Attempt)
					for a.Number = 1; ask(a); a.Number++ {
					}
				case "success":
					fleet.Report(&decide.Outcome{Bucket: vectorBucket, Policy: r.policy, FirstTrySuccesses: 1})
				case "retry_success":
					fleet.Report(&decide.Outcome{Bucket: vectorBucket, Policy: r.policy, RetrySuccesses: 1})
				case "advance":
					now = now.Add(time.Duration(step.MS) * time.Millisecond)
				default:
					t.Fatalf("step %q is not known", step.Do)
				}
			}
		}
		if retries != c.Expect.Retry || !maps.Equal(giveUps, c.Expect.GiveUp) {
			t.Errorf("%d retries and give-ups %v, want %d and %v", retries, giveUps, c.Expect.Retry, c.Expect.GiveUp)
		}
		if got, want := fleet.Tokens(vectorBucket, r.policy), micro(t, c.Expect.TokensAfter); got != want {
			t.Errorf("%s tokens are left, want %s", decide.FormatMicro(got), decide.FormatMicro(want))
		}
	})
}

// compare says what is wrong with a member of an answer, "" where it is right.
func compare(t *testing.T, got map[string]any, member string, want any) string {
	t.Helper()
	switch member {
	case "decision", "reason", "retry_after", "delay_ms", "next_attempt", "remaining_ms", "server_delay_ms", "ask_again_in_ms":
	case "tokens_after":
		if tokens := micro(t, want.(json.Number)); got[member] != tokens {
			return fmt.Sprintf("tokens_after is %v millionths, want %d", got[member], tokens)
		}
		return ""
	case "delay_ms_min", "delay_ms_max":
		delay, bound := got["delay_ms"].(int64), whole(t, want)
		if member == "delay_ms_min" && delay < bound || member == "delay_ms_max" && delay > bound {
			return fmt.Sprintf("delay_ms is %d, %s is %d", delay, member, bound)
		}
		return ""
	default:
		t.Fatalf("member %q is not known", member)
	}
	if number, ok := want.(json.Number); ok {
		want = whole(t, number)
	}
	if got[member] != want { // null is nil, as an absent member is
		return fmt.Sprintf("%s is %v, want %v", member, got[member], want)
	}
	return ""
}

func whole(t *testing.T, number any) int64 {
	t.Helper()
	n, err := number.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// micro reads a number of tokens in millionths.
func micro(t *testing.T, tokens json.Number) decide.Micro {
	t.Helper()
	f, err := tokens.Float64()
	if err != nil {
		t.Fatal(err)
	}
	return decide.Micro(math.Round(f * float64(decide.MicroPerToken)))
}

// members are those of a decision that are there, by the contract's names.
func members(d decide.Decision) map[string]any {
	m := map[string]any{
		"decision": d.Word(), "reason": d.Reason.String(), "delay_ms": d.Delay, "message": d.Message(), "retry_after": d.ServerDelayUse.String(),
	}
	if d.Retry() {
		m["next_attempt"] = d.NextAttempt
	}
	for name, value := range map[string]decide.Millis{"remaining_ms": d.Remaining, "server_delay_ms": d.ServerDelay, "ask_again_in_ms": d.AskAgain} {
		if value.Present {
			m[name] = value.Value
		}
	}
	return m
}

// readAttempt reads the request's body as the contract has it (DESIGN §2).
func readAttempt(t *testing.T, raw json.RawMessage) *decide.Attempt {
	t.Helper()
	body := strictly[struct {
		Dependency, Method, Outcome, Caller string
		Status                              int
		GRPCStatus                          string `json:"grpc_status"`
		Idempotent                          *bool
		HasIdempotencyKey                   bool    `json:"has_idempotency_key"`
		RetryAfter                          *string `json:"retry_after"`
		ResponseDate                        *string `json:"response_date"`
		Headers                             map[string]string
		Attempt                             int64
		RemainingMS                         *int64 `json:"remaining_ms"`
		MinAttemptMS                        *int64 `json:"min_attempt_ms"`
		PreviousDelayMS                     int64  `json:"previous_delay_ms"`
		InboundAttempt                      int64  `json:"inbound_attempt"`
		RetriedBelow                        bool   `json:"retried_below"`
		DecisionID                          string `json:"decision_id"`
	}](t, raw)
	a := &decide.Attempt{
		Dependency: body.Dependency, Method: body.Method, HasIdempotencyKey: body.HasIdempotencyKey, Number: body.Attempt,
		Remaining: present(body.RemainingMS), MinAttempt: present(body.MinAttemptMS), PreviousDelay: body.PreviousDelayMS,
		Caller: body.Caller, InboundAttempt: body.InboundAttempt, RetriedBelow: body.RetriedBelow, DecisionID: body.DecisionID,
	}
	switch {
	case body.Outcome != "":
		a.Failure = outcome(body.Outcome)
	case body.GRPCStatus != "":
		a.Failure = code(body.GRPCStatus)
	default:
		a.Failure = must(decide.Status(body.Status))
	}
	if body.Idempotent != nil {
		a.Idempotent = map[bool]decide.Knowledge{true: decide.Yes, false: decide.No}[*body.Idempotent]
	}
	for name, value := range body.Headers {
		if h, ok := decide.ParseHeader(name); ok {
			a.Headers.Set(h, value)
		}
	}
	for h, value := range map[decide.Header]*string{decide.RetryAfterHeader: body.RetryAfter, decide.DateHeader: body.ResponseDate} {
		if value != nil { // an explicit member wins
			a.Headers.Set(h, *value)
		}
	}
	return a
}

func present(ms *int64) decide.Millis {
	if ms == nil {
		return decide.Millis{}
	}
	return decide.Some(*ms)
}

// A vector's floats are written in full, so equality is exact.
func sameFloat(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// sixDecimals writes a number as the tables of the vectors do.
func sixDecimals(f float64) string { return strconv.FormatFloat(f, 'f', 6, 64) }
