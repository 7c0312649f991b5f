// Package decider makes calls that fail politely: after a failed attempt it asks
// decider, the fleet's one service for retries, whether to make another and after
// how long, and does so.
//
//	client, err := decider.NewClient("http://decider:8080", decider.WithCaller("checkout"))
//	…
//	defer client.Close(ctx)
//	payments := &http.Client{Transport: decider.NewTransport(client)}
//
// There are three ways in, each standing on the next:
//
//   - [Transport], an [http.RoundTripper], does everything for an HTTP client:
//     it tells what happened, asks, waits, repeats, and counts;
//   - [Client.Ask], [Client.Succeeded] and [Client.Admit] do all of that but the
//     loop, for other protocols and for retry libraries (see the module examples);
//   - [Client.Decide] and [Client.Report] are the calls of the contract, bare.
//
// The order of events around a call made through a Transport:
//
//  1. where decider sheds calls of the dependency, fail at once with a [ShedError];
//  2. make the attempt; a success is counted, and reported within a second;
//  3. on a failure, say how it ended ([Outcome]); a request that cannot be
//     repeated, a caller who has left and a deadline that is over need no question;
//  4. ask, within 75 ms; where no answer comes, the local rule ([Fallback])
//     answers: one retry for ten successes, full jitter, and only what is safe;
//  5. tell the [Observer]; give the last response or error back, or wait and
//     begin again at 2.
//
// Reports teach as much as they tell: what each is answered with, a pause, a
// cool-down, a breaker, the policy's own rule for a client alone, holds until the
// next one. decider being down costs a call one bounded question at most, and
// after three of those none: for a second at a time nobody asks.
//
// The package imports the standard library alone, and runs a goroutine only
// while a report is being sent.
package decider
