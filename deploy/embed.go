// Package deploy embeds the JSON Schema of the callers file.
package deploy

import _ "embed"

// CallersSchema is the JSON Schema of the callers file (EASEL_CALLERS_FILE).
//
//go:embed callers.schema.json
var CallersSchema []byte
