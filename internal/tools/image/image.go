// Package image reads the declarations and comments of the contract from an image, which is a file of
// descriptors that buf has written.
package image

import (
	"iter"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate" // registers the validation rules in .proto files
	_ "google.golang.org/genproto/googleapis/api/annotations"                   // registers the HTTP options in .proto files
)

// Read returns the descriptors of the contract's files in the descriptor image at path. They are sorted by the paths of the files.
func Read(path string) (files []protoreflect.FileDescriptor, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		return nil, err
	}
	known, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, err
	}
	known.RangeFilesByPackage("easel.v1", func(file protoreflect.FileDescriptor) bool {
		files = append(files, file)
		return true
	})
	slices.SortFunc(files, func(a, b protoreflect.FileDescriptor) int { return strings.Compare(a.Path(), b.Path()) })
	return files, nil
}

// All returns an iterator over a list of declarations, in the order of the .proto file.
func All[T any](list interface {
	Len() int
	Get(n int) T
}) iter.Seq[T] {
	return func(yield func(T) bool) {
		for n := 0; n < list.Len() && yield(list.Get(n)); n++ {
		}
	}
}

// Comment returns the comment of a declaration, as Markdown.
func Comment(d protoreflect.Descriptor) string {
	lines := strings.Split(d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments, "\n")
	for n, line := range lines {
		lines[n] = strings.TrimPrefix(line, " ")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
