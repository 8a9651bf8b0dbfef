package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
)

// errorFiles are what a caller reads an error with. No file of the contract imports them.
var errorFiles = []protoreflect.FileDescriptor{
	code.File_google_rpc_code_proto,
	status.File_google_rpc_status_proto,
	errdetails.File_google_rpc_error_details_proto,
}

// printedFrom heads a file of others. Their descriptors carry no comments.
const printedFrom = "Printed by make generate from the descriptors in google.golang.org/genproto (Apache License 2.0). DO NOT EDIT.\n"

// addErrors adds errorFiles and what they import to the set, each after its imports.
func addErrors(set *descriptorpb.FileDescriptorSet) {
	known := map[string]bool{}
	for _, file := range set.File {
		known[file.GetName()] = true
	}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if known[file.Path()] {
			return
		}
		known[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	for _, file := range errorFiles {
		add(file)
	}
}

// namePackages gives each file of ours the packages that our own stubs have in Go and in Java.
func namePackages(set *descriptorpb.FileDescriptorSet) {
	for _, file := range contract(set) {
		if file.Options == nil {
			file.Options = &descriptorpb.FileOptions{}
		}
		file.Options.GoPackage = proto.String("github.com/easel-grpc/easel/gen/go/easel/v1;easelv1")
		file.Options.JavaPackage = proto.String("io.github.easelgrpc.easel.v1")
		file.Options.JavaMultipleFiles = proto.Bool(true)
		file.Options.JavaOuterClassname = proto.String(camelCase(strings.TrimSuffix(path.Base(file.GetName()), ".proto")) + "Proto")
	}
}

// camelCase makes account_service AccountService.
func camelCase(name string) (camel string) {
	for word := range strings.SplitSeq(name, "_") {
		camel += strings.ToUpper(word[:1]) + word[1:]
	}
	return camel
}

// plainTree prints the set as .proto files, by path. The files of google/protobuf are left out:
// every compiler brings its own.
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
