package policy

import _ "embed"

//go:embed decider.schema.json
var schema []byte

//go:embed policies.example.yaml
var example []byte

// Schema is the JSON Schema (draft 2020-12) of a policy file, for editors and
// for checks without decider. What a schema cannot say, such as one word that
// contradicts another, only [Parse] tells.
func Schema() []byte { return append([]byte(nil), schema...) }

// SchemaComment is the first line of a policy file whose editor shall complete
// it by the schema at a path or URL.
func SchemaComment(location string) string { return "# yaml-language-server: $schema=" + location }

// Example is a policy file that says every word once.
func Example() []byte { return append([]byte(nil), example...) }
