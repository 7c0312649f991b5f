// Package deploytest tests what deploy holds, with the programs that will read
// it and against a real decider. It is a module of its own, for it needs what
// decider does not: Helm, Kubernetes' types and Prometheus' parser.
package deploytest
