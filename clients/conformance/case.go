package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// scenario is one file of cases: what both sides of the client do, and what
// must come of it.
type scenario struct {
	// ID names it; where it is one of the project's cases, by that id.
	ID string `json:"id"`
	// Why is one sentence on what goes wrong without.
	Why string `json:"why"`
	// Client is how the client under test is configured.
	Client clientConfig `json:"client"`
	// Calls are made one after the other.
	Calls []call `json:"calls"`
	// Upstream is what the dependency does with its n-th request; the last holds
	// for all that follow.
	Upstream []behavior `json:"upstream"`
	// Decide and Outcomes are how decider answers its n-th question and its n-th
	// report; the last holds for all that follow. None of Outcomes: no
	// dependency's state.
	Decide   []answer `json:"decide"`
	Outcomes []answer `json:"outcomes"`
	Expect   expect   `json:"expect"`
}

// clientConfig is what a runner sets. What is absent stays at the client's default.
type clientConfig struct {
	// DeciderDown: nobody listens where decider should be.
	DeciderDown bool `json:"decider_down,omitempty"`
	// AskTimeoutMS bounds a question; cases that do not test it leave it long.
	AskTimeoutMS int64 `json:"ask_timeout_ms"`
	// AttemptTimeoutMS bounds one attempt of a call.
	AttemptTimeoutMS int64  `json:"attempt_timeout_ms,omitempty"`
	Caller           string `json:"caller,omitempty"`
	Dependency       string `json:"dependency"`
	// MakeKeys: the client gives calls that have none an idempotency key.
	MakeKeys bool `json:"make_keys,omitempty"`
}

// call is one call of the program that uses the client.
type call struct {
	// Method, URL and so on are the request's; the path is put behind the
	// dependency's address.
	Method  string            `json:"method"`
	Path    string            `json:"path,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	// BodyOnce: the body is a stream that can be read once.
	BodyOnce bool `json:"body_once,omitempty"`
	// TimeoutMS is the call's deadline, all attempts and waits included.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// CancelAfterMS cancels the call so long after its start.
	CancelAfterMS int64 `json:"cancel_after_ms,omitempty"`
	// PauseMS is waited before the call.
	PauseMS int64 `json:"pause_ms,omitempty"`
	// FlushBefore sends the client's report, and waits for its answer, before the call.
	FlushBefore bool `json:"flush_before,omitempty"`
	// Result is what the program must see.
	Result *result `json:"result,omitempty"`
}

// result is what a call came to, as a runner tells it and as a case expects it.
type result struct {
	Status int     `json:"status,omitempty"`
	Body   *string `json:"body,omitempty"`
	// Error is "timeout", "canceled", "shed", "other"; expected, also "any".
	Error string `json:"error,omitempty"`
	// TookMS is the time of the call; a case bounds it by MinMS and MaxMS.
	TookMS int64 `json:"took_ms,omitempty"`
	MinMS  int64 `json:"min_ms,omitempty"`
	MaxMS  int64 `json:"max_ms,omitempty"`
}

// behavior is what the dependency does with a request that it has read to its end.
type behavior struct {
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	// Does, instead of an answer: "close" or "reset" the connection, "hang".
	Does string `json:"does,omitempty"`
	// Refused, in the first behavior: nobody listens at all.
	Refused bool `json:"refused,omitempty"`
}

// answer is decider's. Does is as of a behavior.
type answer struct {
	Status int             `json:"status,omitempty"` // 0 is 200
	Body   json.RawMessage `json:"body,omitempty"`
	Does   string          `json:"does,omitempty"`
}

// expect is what the two sides must have seen.
type expect struct {
	// Arrivals at the dependency, all of them and in order.
	Arrivals []arrival `json:"arrivals"`
	// Questions, all of them and in order. Of each the named members: a value
	// that must be equal, null for a member that must be absent, "*" for one that
	// must be there, {"min":1,"max":9} for a number within bounds, and "$name"
	// for the same text wherever that name stands.
	Questions []map[string]any `json:"questions"`
	// Reports are the sums over all reports, by dependency; absent, they do not matter.
	Reports map[string]map[string]int64 `json:"reports,omitempty"`
	// Gaps bound the times between "answer 1", the first of decide's, and "arrival 2".
	Gaps []gap `json:"gaps,omitempty"`
}

// arrival is one request at the dependency. Of the headers the named ones are
// compared, as the members of a question are.
type arrival struct {
	Method  string         `json:"method"`
	Body    string         `json:"body,omitempty"`
	Headers map[string]any `json:"headers,omitempty"`
}

type gap struct {
	From  string `json:"from"`
	To    string `json:"to"`
	MinMS int64  `json:"min_ms"`
	MaxMS int64  `json:"max_ms"`
}

// readCases reads all cases of a directory; each file is a list of them.
func readCases(directory string) (map[string]*scenario, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no cases in %s", directory)
	}
	cases := map[string]*scenario{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		var list []*scenario
		if err := decoder.Decode(&list); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, each := range list {
			if cases[each.ID] != nil || each.ID == "" || len(each.Calls) == 0 || len(each.Upstream) == 0 {
				return nil, fmt.Errorf("%s: %q is there twice or lacks a part", file, each.ID)
			}
			cases[each.ID] = each
		}
	}
	return cases, nil
}
