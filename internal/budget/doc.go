// Package budget holds what the whole fleet knows of a dependency: the retry
// budget, the cool-down, the breaker, the shares of callers, an operator's
// override, and the decisions that must not be charged twice.
//
// There is one arithmetic. bucket.go, breaker.go and caller.go are it in Go,
// fleet.lua is it in Lua; a differential test holds the two together. All
// numbers are integers below 2^53: tokens in millionths, times in ms.
//
// A [Backend] applies operations to one bucket atomically: [Memory] in this
// process, [Redis] by one script call, which serves several buckets where many
// wait (together.go). [Fleet] puts one backend to work: it merges what waits for
// one bucket (commit.go), tells failures afterwards (tell.go), and answers from a
// local share while the backend is out of reach (fallback.go, health.go).
//
// How a retry is planned before any state is asked is in package decide.
package budget
