// Package decisionlog keeps what a decider decided, one line of JSON for each
// decision and for each outcome that was reported, so that `decider replay` can
// ask what another policy would have decided (NDJSON, UTF-8).
//
// A decision is
//
//	{"time":…,"config":…,"attempt":{…},"decision":{…}}
//
// and an outcome, which feeds the budgets,
//
//	{"time":…,"config":…,"caller":…,"report_id":…,"outcome":{…}}
//
//	time       when it was answered, RFC 3339 in UTC with nanoseconds
//	config     the hash of the policies in force, as /v1/status tells it
//	attempt    as POST /v1/decide takes it; headers that no policy can honour are left out
//	decision   as it was answered
//	caller     of the report; absent where it gave no name
//	report_id  absent where the report had none
//	outcome    one of the report's outcomes, as POST /v1/outcomes takes it
//
// Members may be added; a reader leaves alone what it does not know.
//
// A Log is never on the path of a request: what is to be written waits in a
// queue of a bounded size, and what finds no place in it is dropped and counted
// (log.go writes, read.go reads). Rotation is the platform's: the file is opened
// anew at SIGHUP.
package decisionlog
