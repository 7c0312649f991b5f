package handlers

import (
	"reflect"
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// What is written of an attempt is read as the same attempt.
func TestAnAttemptIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"dependency":"payments","method":"GET","status":503}`,
		`{"dependency":"a/b:c","method":"pOsT","outcome":"timeout","idempotent":false,"has_idempotency_key":true,"attempt":2147483647}`,
		`{"dependency":"rpc","method":"POST","grpc_status":"UNAVAILABLE","idempotent":true,"headers":{"Retry-After":"\"2\\\u0007","date":"x","grpc-retry-pushback-ms":""}}`,
		`{"dependency":"rpc","method":"GET","status":999,"retry_after":"","response_date":"Wed, 21 Oct 2015 07:28:00 GMT"}`,
		`{"dependency":"p","method":"GET","status":500,"remaining_ms":0,"min_attempt_ms":0,"previous_delay_ms":7,"caller":"checkout","inbound_attempt":2,"retried_below":true,"decision_id":"id-1"}`,
		`{"dependency":"p","method":"GET","status":500,"remaining_ms":-9007199254740991,"min_attempt_ms":9007199254740991}`,
	} {
		want, err := ReadAttempt([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		written := AppendAttempt(nil, &want)
		got, err := ReadAttempt(written)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is written %s, and read %+v, %v", body, written, got, err)
		}
	}
	for _, f := range decide.Failures() {
		a := decide.Attempt{Dependency: "p", Method: "GET", Failure: f}
		if got, err := ReadAttempt(AppendAttempt(nil, &a)); err != nil || got.Failure != f {
			t.Errorf("%s is read %s, %v", f, got.Failure, err)
		}
	}
}

func TestReadAttemptNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"dependency":"-","method":"GET","satus":503}`: "/dependency /satus /status",
		`{"dependency":"p","dependency":"p"}`:           "/dependency",
		`nonsense`:                                      "",
		`"` + strings.Repeat("x", maxBody) + `"`:        "",
	} {
		_, err := ReadAttempt([]byte(body))
		var fields []string
		for _, f := range WrongFields(err) {
			fields = append(fields, f.Field)
		}
		if err == nil || strings.Join(fields, " ") != want {
			t.Errorf("%.60s: %v names %q, want %q", body, err, fields, want)
		}
	}
	if dependency, o, err := ReadOutcome([]byte(`{"dependency":"p","first_try_successes":3,"final_failures":1}`)); err != nil || dependency != "p" || o.FirstTrySuccesses != 3 || o.FinalFailures != 1 {
		t.Errorf("%s %+v %v", dependency, o, err)
	}
	if _, _, err := ReadOutcome([]byte(`{"dependency":"p","second_try_successes":3}`)); err == nil {
		t.Error("an unknown member is read")
	}
}
