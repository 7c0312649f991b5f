// Package examples holds adapters of decider to the retry libraries of others,
// one in each directory, to copy: each makes the library ask decider whether and
// how long, and leaves the loop to it. They are a module of their own, so that
// the client needs none of them.
//
// A program that is free to choose needs none of them either:
// [github.com/retrydecider/decider/clients/go.Transport] does the same for every
// HTTP client, and knows more of what happened.
package examples
