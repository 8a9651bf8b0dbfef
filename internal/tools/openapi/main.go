// Command openapi writes the OpenAPI 3 document of the REST API. It reads the OpenAPI 2 document from
// protoc-gen-openapiv2, and adds the information that OpenAPI 2 can't express: the rules for requests, each HTTP status
// with its content, and the streams of events and bytes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: openapi IMAGE OPENAPI2 OPENAPI3")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func write(image, from, to string) error {
	contract, err := readContract(image)
	if err != nil {
		return fmt.Errorf("read %s: %w", image, err)
	}
	doc, err := convert(from)
	if err != nil {
		return fmt.Errorf("convert %s: %w", from, err)
	}
	if err := addMissingParts(doc, contract); err != nil {
		return err
	}
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return err
	}
	if err := checkDocument(text); err != nil {
		return fmt.Errorf("the document is not valid: %w", err)
	}
	return os.WriteFile(to, append(text, '\n'), 0o644)
}

func convert(name string) (*openapi3.T, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var doc openapi2.T
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	return openapi2conv.ToV3(&doc)
}

// checkDocument validates an OpenAPI document. It also resolves the references, and validates the examples against the
// schemas.
func checkDocument(text []byte) error {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return err
	}
	return doc.Validate(context.Background())
}
