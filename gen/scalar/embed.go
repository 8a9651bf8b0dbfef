// Package scalar carries scalar.js.gz.
package scalar

import _ "embed"

// Document is the content of scalar.js.gz.
//
//go:embed scalar.js.gz
var Document []byte
