package main

import (
	"fmt"
	"strings"

	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// printedFrom is the first line of each google.rpc file that make generate prints. It is the only comment in the
// file, because the descriptors from which the files are printed contain no comments.
const printedFrom = "Printed by make generate from the descriptors in google.golang.org/genproto (Apache License 2.0). DO NOT EDIT.\n"

// plainTree returns the text of the .proto files in a descriptor set, keyed by path. It omits google/protobuf, which
// every compiler provides.
func plainTree(set *descriptorpb.FileDescriptorSet) (map[string]string, error) {
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	tree := map[string]string{}
	printer := protoprint.Printer{}
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		heading := generatedFrom
		switch {
		case strings.HasPrefix(file.Path(), "google/protobuf/"):
			return true
		case strings.HasPrefix(file.Path(), "google/"):
			heading = printedFrom
		}
		var text string
		if text, err = printer.PrintProtoToString(file); err != nil {
			err = fmt.Errorf("printing %s: %w", file.Path(), err)
			return false
		}
		tree[file.Path()] = "// " + heading + "\n" + text
		return true
	})
	return tree, err
}
