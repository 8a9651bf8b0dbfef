// Package openapi carries easel.openapi.json.
package openapi

import _ "embed"

// Document is the content of easel.openapi.json.
//
//go:embed easel.openapi.json
var Document []byte
