// Package replay puts a decision log to another policy: which decisions would
// have flipped, what the budget would have held over time, and how many calls
// would have been saved or added.
//
// The order of events: merge.go reads logs in the order of their times, one line
// in memory at a time; replay.go decides each attempt anew, with the deciders of
// the service themselves and a clock that the lines move, and counts; report.go
// is what comes of it, in text. One log under one policy file gives one report,
// to the byte.
//
// What a log cannot say: the waits' floats are drawn anew, from the decision's
// id; budgets start full, and a log that begins in the middle of an outage begins
// with too many tokens; a retry that is refused here has its further attempts in
// the log all the same, so a policy that saves calls would save at least so many.
// What an operator paused stays paused.
package replay
