// Package policytest runs the cases beside a policy file, as promtool and opa do
// for rules of their own: attempts with a state, and what is expected of them.
//
// The order of events: package policy reads the cases as strictly as the policy
// file; run.go plays each test with a decider, a bucket in memory and a clock of
// its own; expect.go compares an answer with what was expected; coverage.go says
// which rules and words no test has touched; report.go prints, and junit.go
// writes what CI systems read.
//
// DESIGN §12 does not name it: it needs decide, budget and policy together, as
// simulate does, and none of them may need the others.
package policytest
