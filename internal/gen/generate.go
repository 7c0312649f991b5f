// Package gen is what oapi-codegen writes from the contract, and nothing else:
// the models and the routes. The document itself is in package api: embedded here
// it would bring a reader of OpenAPI into the program, which has no use for one.
package gen

//go:generate go tool -modfile=../../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../../api/openapi.yaml
