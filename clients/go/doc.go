// Package decider asks decider, the fleet's one service for retries, what to do
// after a failed call: retry after so long, or give up.
//
// A [Client] puts one question per failed attempt ([Client.Decide]) and reports
// the calls that needed no question ([Client.Report]), which is what feeds the
// fleet's retry budget. It does no more: it neither makes your calls nor waits
// nor repeats anything, its own question to decider included.
//
// The order of events around a call of yours:
//
//  1. make the call; where it succeeds, count it for the next report;
//  2. where it fails, describe the attempt in an [Attempt] and ask;
//  3. where [Decision.Retry] is true, wait [Decision.Delay] and make the call
//     again with the attempt number [Decision.NextAttempt];
//  4. else return your last real response or error to your caller.
//
// Asking costs at most the client's own timeout (75 ms unless [WithTimeout] says
// otherwise). An error of Decide means that there is no decision: the
// failed call is then best given up, for an outage that also cut you off from
// decider is no time for more calls. [Problem] tells a question that decider
// refused from an answer that never came.
//
// The package imports the standard library alone.
package decider
