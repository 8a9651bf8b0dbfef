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
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
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

// validate holds a message, and each message and extension within it, against its rules.
func validate(config proto.Message) (checked int, err error) {
	err = protorange.Range(config.ProtoReflect(), func(at protopath.Values) error {
		message, ok := at.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		ruled, ok := message.Interface().(interface{ ValidateAll() error })
		if !ok {
			return nil
		}
		checked++
		if err := ruled.ValidateAll(); err != nil {
			return fmt.Errorf("%s: %w", at.Path, err)
		}
		return nil
	})
	return checked, err
}
