// Package deploy embeds the schema of the callers file.
package deploy

import _ "embed"

// CallersSchema is the content of callers.schema.json, a JSON Schema.
//
//go:embed callers.schema.json
var CallersSchema []byte
