// Package simulate runs a fleet of clients and a dependency in virtual time, so
// that a storm can be seen before it comes.
//
// What is simulated are models: clients (client.go), the dependency with its
// workers, queue and faults (dependency.go), and what other systems do to bound
// retries (baselines.go). What decider decides is not: every decision of its
// policies is made by [decide.Decider] and the state of [budget.Fleet], which
// read a virtual clock (central.go).
//
// The order of events is: a [Scenario] is a list of points, each a [Model], and
// of contenders; run.go plays one model under one contender and one seed, with
// the events of heap.go in order of time; stats.go counts into fixed slots, so
// memory does not grow with the number of events; score.go makes the metrics of
// them, and table.go, chart.go and page.go show those.
//
// A run is deterministic to the byte: chance comes from seeded PCG streams, a
// logarithm of its own (chance.go), and no product is fused into a sum.
package simulate
