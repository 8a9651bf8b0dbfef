// Command contract generates pages about the contract from the comments in the .proto files: each call with its behavior,
// its REST form and its messages, and each error reason with its remedy.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"google.golang.org/genproto/googleapis/api/annotations"

	"github.com/easel-grpc/easel/internal/tools/image"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: contract IMAGE REASONS CONTRACT ERRORS")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

func write(path, reasons, contract, errors string) error {
	files, err := image.Read(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	var table errorTable
	if text, err := os.ReadFile(reasons); err != nil {
		return err
	} else if err := json.Unmarshal(text, &table); err != nil {
		return fmt.Errorf("read %s: %w", reasons, err)
	}
	d := newDocument(files)
	d.writeServices()
	d.writeSharedMessages()
	d.enums()
	if err := os.WriteFile(contract, []byte(d.out.String()), 0o644); err != nil {
		return err
	}
	d = newDocument(files)
	if err := d.writeErrors(table); err != nil {
		return err
	}
	return os.WriteFile(errors, []byte(d.out.String()), 0o644)
}

// route returns the HTTP method and the path of a call in the REST API, or "" if the call is not part of it.
func route(m protoreflect.MethodDescriptor) string {
	rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok {
		return ""
	}
	for verb, path := range map[string]string{"GET": rule.GetGet(), "POST": rule.GetPost(), "DELETE": rule.GetDelete()} {
		if path != "" {
			return verb + " " + strings.ReplaceAll(path, "=**}", "}")
		}
	}
	return ""
}

// nature returns a short description of a call: whether it changes anything, whether it may be sent again, and whether it
// returns a stream.
func nature(m protoreflect.MethodDescriptor) string {
	level := descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
	if options, ok := m.Options().(*descriptorpb.MethodOptions); ok {
		level = options.GetIdempotencyLevel()
	}
	words := map[descriptorpb.MethodOptions_IdempotencyLevel]string{
		descriptorpb.MethodOptions_NO_SIDE_EFFECTS: "changes nothing",
		descriptorpb.MethodOptions_IDEMPOTENT:      "may be sent again",
	}[level]
	if m.IsStreamingServer() {
		words = strings.TrimPrefix(words+", returns a stream", ", ")
	}
	return words
}
