// Package gen is what oapi-codegen writes from the contract, and nothing else:
// the models, the routes and the embedded document.
package gen

//go:generate go tool -modfile=../../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../../api/openapi.yaml
