package main

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate" // so that its options are known here
	_ "google.golang.org/genproto/googleapis/api/annotations"                   // likewise
)

// lean takes out the options of others, which only the server reads, and the files that define
// them: code made from the image needs nothing but protobuf.
func lean(set *descriptorpb.FileDescriptorSet) {
	theirs := func(path string) bool {
		return !strings.HasPrefix(path, "easel/") && !strings.HasPrefix(path, "google/protobuf/")
	}
	set.File = slices.DeleteFunc(set.File, func(f *descriptorpb.FileDescriptorProto) bool {
		return theirs(f.GetName()) || f.GetName() == "google/protobuf/descriptor.proto"
	})
	for _, file := range set.File {
		file.Dependency = slices.DeleteFunc(file.Dependency, theirs)
		clearExtensions(file.ProtoReflect())
	}
}

// clearExtensions takes the extensions out of a message and of all below it, and options that
// were nothing else.
func clearExtensions(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsExtension():
			m.Clear(field)
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				clearExtensions(value.List().Get(i).Message())
			}
		case field.Message() != nil:
			clearExtensions(value.Message())
			if field.Name() == "options" && proto.Size(value.Message().Interface()) == 0 {
				m.Clear(field)
			}
		}
		return true
	})
	m.SetUnknown(nil) // an option that this program does not know
}
