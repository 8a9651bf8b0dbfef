// Command protodeps writes the third-party .proto files that Easel's contract imports or that callers need. Its argument is
// the directory in which buf looks for these files.
//
// It generates the files from descriptors in Go modules that go.mod requires. As a result, go.sum pins the versions of the
// files, the repository contains no copies of them, and only the module proxy is used to download them.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/protobuf/reflect/protoreflect"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
)

// roots contains the files that the contract imports, and the files with which callers decode its errors.
var roots = []protoreflect.FileDescriptor{
	validate.File_buf_validate_validate_proto,
	annotations.File_google_api_annotations_proto,
	annotations.File_google_api_field_behavior_proto,
	code.File_google_rpc_code_proto,
	errdetails.File_google_rpc_error_details_proto,
	status.File_google_rpc_status_proto,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protodeps DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protodeps:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	files := map[string]protoreflect.FileDescriptor{}
	for _, root := range roots {
		collectImports(files, root)
	}
	printer := protoprint.Printer{Compact: true}
	for path, file := range files {
		text, err := printer.PrintProtoToString(file)
		if err != nil {
			return fmt.Errorf("printing %s: %w", path, err)
		}
		target := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// collectImports adds file and its imports to files. It skips google/protobuf, which buf provides itself.
func collectImports(files map[string]protoreflect.FileDescriptor, file protoreflect.FileDescriptor) {
	path := file.Path()
	if files[path] != nil || strings.HasPrefix(path, "google/protobuf/") {
		return
	}
	files[path] = file
	for i := range file.Imports().Len() {
		collectImports(files, file.Imports().Get(i).FileDescriptor)
	}
}
