// Envoy reads a file of Envoy's static configuration as Envoy's own types, and holds it against
// the rules that those types carry. It starts no Envoy.
package main

import (
	"fmt"
	"os"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3" // kinds that a file may name
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "envoy:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	document, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	var config bootstrap.Bootstrap
	if err := protojson.Unmarshal(document, &config); err != nil {
		return err
	}
	checked, err := validate(&config)
	if err == nil {
		fmt.Printf("%s: %d messages are as Envoy's types have them\n", path, checked)
	}
	return err
}

// validate holds a message, and each extension within it, against its rules.
func validate(message proto.Message) (checked int, err error) {
	if m, ok := message.(interface{ ValidateAll() error }); ok {
		if err := m.ValidateAll(); err != nil {
			return 0, err
		}
		checked++
	}
	if extension, ok := message.(*anypb.Any); ok {
		inner, err := extension.UnmarshalNew()
		if err != nil {
			return checked, err
		}
		n, err := validate(inner)
		return checked + n, err
	}
	message.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		for _, child := range children(field, value) {
			n, failed := validate(child)
			if checked += n; failed != nil {
				err = fmt.Errorf("%s: %w", field.Name(), failed)
				return false
			}
		}
		return true
	})
	return checked, err
}

// children are the messages that a field holds.
func children(field protoreflect.FieldDescriptor, value protoreflect.Value) (found []proto.Message) {
	switch {
	case field.IsMap() && field.MapValue().Message() != nil:
		value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
			found = append(found, v.Message().Interface())
			return true
		})
	case field.IsList() && field.Message() != nil:
		for i := range value.List().Len() {
			found = append(found, value.List().Get(i).Message().Interface())
		}
	case !field.IsList() && !field.IsMap() && field.Message() != nil:
		found = append(found, value.Message().Interface())
	}
	return found
}
