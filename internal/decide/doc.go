// Package decide answers one question: a call has just failed, should it be
// repeated, and after how long?
//
// The order of events is the design. [Plan] asks the cheap and certain
// questions first (is it a failure at all, what kind, may the call be
// repeated, is this caller the one that retries, are attempts left, does the
// wait fit the deadline) and is a total function of its arguments: no I/O, no
// clock, no source of chance of its own. What is left open is one [Question]
// to the state that the fleet shares: override, breaker, cool-down and budget,
// answered by a [Fleet] in one atomic step. [Decider] puts the two together,
// so a give-up never costs a token.
//
// What is where: the words of a failed attempt in attempt.go, the classes of
// failures in classes.go, Retry-After and its kin in retryafter.go, the waits
// in backoff.go, the rule of a dependency in policy.go, the order in plan.go,
// the shared question in fleet.go, the whole in decider.go and the answer's
// words in decision.go.
//
// The package imports the standard library alone. The fleet's state is in
// package budget, the policy file in package policy, HTTP in package handlers.
package decide
