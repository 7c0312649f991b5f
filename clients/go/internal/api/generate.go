// Package api is what oapi-codegen writes from the contract, and nothing else:
// the documents that the client sends and receives. Package decider converts
// between them and its own types in one file, so that a change of the contract
// that matters here does not compile.
package api

//go:generate go tool -modfile=../../../../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../../../../api/openapi.yaml
