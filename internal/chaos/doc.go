// Package chaos holds no code, only the tests that play every failure of the
// store against real processes: deciders as users run them, real redis-servers,
// and a proxy between them, all under load.
//
// `make test-chaos` plays every fault for as long as an operator would notice,
// and holds the answers to the time that the design promises. `go test` plays
// the same faults for a moment each, and holds them to everything but that time,
// which a busy machine cannot promise.
package chaos
