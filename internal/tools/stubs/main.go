// Command stubs is a buf plugin that complements the code generators: it writes the files that client libraries need in addition
// to the generated stubs.
//
// It writes the contract as a descriptor image and as plain .proto files, from which stubs for other languages can be generated.
// For Python and TypeScript, it writes the module from which programs import the contract. For each language, it writes the
// service config and the table of reasons, which define a client's retries.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stubs:", err)
		os.Exit(1)
	}
}

// run handles a request from buf, and writes generated files below the repository's root. Buf starts the plugin in the directory
// internal/tools.
func run(in io.Reader, out io.Writer) error {
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var request pluginpb.CodeGeneratorRequest
	if err := proto.Unmarshal(data, &request); err != nil {
		return err
	}
	if err := writeGenerated(&descriptorpb.FileDescriptorSet{File: request.GetProtoFile()}, filepath.Join("..", "..")); err != nil {
		return err
	}
	response, err := proto.Marshal(&pluginpb.CodeGeneratorResponse{})
	if err == nil {
		_, err = out.Write(response)
	}
	return err
}

// writeGenerated writes the files that are generated from the descriptors, the service config and the table of reasons.
func writeGenerated(set *descriptorpb.FileDescriptorSet, root string) error {
	config, err := os.ReadFile(filepath.Join(root, "proto", "easel", "v1", "service_config.json"))
	if err != nil {
		return err
	}
	table, err := readReasons(filepath.Join(root, "clients", "reasons.json"))
	if err != nil {
		return err
	}
	image, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return err
	}
	ours := contractFiles(set)
	gen := filepath.Join(root, "gen")
	golang := filepath.Join(gen, "go", "easel", "v1")
	python := filepath.Join(gen, "python", "src", "easel_grpc")
	typescript := filepath.Join(gen, "typescript", "src", "easel", "v1")
	java := filepath.Join(root, "clients", "java", "src", "main", "java", "io", "github", "easelgrpc", "easel")
	tables, types := typescriptReasons(table)
	tree, err := plainTree(set)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(gen, "proto")), removeReasons(java)); err != nil {
		return err
	}
	texts := map[string]string{
		filepath.Join(gen, "easel.binpb"):          string(image),
		filepath.Join(golang, "service_config.go"): goConfig(config),
		filepath.Join(python, "v1", "__init__.py"): pythonIndex(ours, config),
		filepath.Join(typescript, "index.js"):      typescriptIndex(ours) + "export const serviceConfig = " + string(bytes.TrimSpace(config)) + ";\n",
		filepath.Join(typescript, "index.d.ts"):    typescriptIndex(ours) + "/** " + aboutConfig + " */\n" + typescriptConfig,
		filepath.Join(golang, "reasons.go"):        goReasons(table),
		filepath.Join(python, "v1", "reasons.py"):  pythonReasons(table),
		filepath.Join(typescript, "reasons.js"):    tables,
		filepath.Join(typescript, "reasons.d.ts"):  types,
	}
	maps.Copy(texts, javaReasons(table, java))
	for path, text := range tree {
		texts[filepath.Join(gen, "proto", filepath.FromSlash(path))] = text
	}
	for path, text := range texts {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	}
	return err
}

// contractFiles returns the descriptors of Easel's own .proto files, without their imports.
func contractFiles(set *descriptorpb.FileDescriptorSet) (ours []*descriptorpb.FileDescriptorProto) {
	for _, file := range set.File {
		if strings.HasPrefix(file.GetName(), "easel/") {
			ours = append(ours, file)
		}
	}
	return ours
}

// generatedFrom is the text of the comment on the first line of each generated file.
const generatedFrom = "Code generated from proto/easel/v1 by make generate. DO NOT EDIT.\n"

const aboutConfig = "Automatic retries of a gRPC client: reads and orders on UNAVAILABLE, but no streams."

// typescriptConfig is the TypeScript type of the service config. Clients without a gRPC library use the retry policy in it.
const typescriptConfig = `export declare const serviceConfig: {
  methodConfig: {
    name: { service: string; method: string }[];
    retryPolicy: {
      maxAttempts: number;
      initialBackoff: string;
      maxBackoff: string;
      backoffMultiplier: number;
      retryableStatusCodes: string[];
    };
  }[];
};
`

func goConfig(config []byte) string {
	return "// " + generatedFrom + "\npackage easelv1\n\n// ServiceConfig is for grpc.WithDefaultServiceConfig. " + aboutConfig +
		"\nconst ServiceConfig = `" + string(config) + "`\n"
}

// pythonIndex returns an __init__.py that exports each name individually, because strict type checkers do not treat other imported
// names as public.
func pythonIndex(files []*descriptorpb.FileDescriptorProto, config []byte) string {
	var text strings.Builder
	text.WriteString("# " + generatedFrom + "\"\"\"The contract of Easel: messages, enums, and a stub for each service.\"\"\"\n\n")
	export := func(module, name string) {
		fmt.Fprintf(&text, "from easel_grpc.v1.%[1]s import %[2]s as %[2]s\n", module, name)
	}
	for _, file := range files {
		module := strings.TrimSuffix(filepath.Base(file.GetName()), ".proto") + "_pb2"
		for _, enum := range file.EnumType {
			export(module, enum.GetName())
			for _, value := range enum.Value {
				export(module, value.GetName())
			}
		}
		for _, message := range file.MessageType {
			export(module, message.GetName())
		}
		for _, service := range file.Service {
			export(module+"_grpc", service.GetName()+"Servicer")
			export(module+"_grpc", service.GetName()+"Stub")
			export(module+"_grpc", "add_"+service.GetName()+"Servicer_to_server")
		}
	}
	fmt.Fprintf(&text, "\n# %s For the channel option grpc.service_config.\nSERVICE_CONFIG = \"\"\"\\\n%s\"\"\"\n", aboutConfig, config)
	return text.String()
}

func typescriptIndex(files []*descriptorpb.FileDescriptorProto) string {
	var text strings.Builder
	text.WriteString("// " + generatedFrom)
	for _, file := range files {
		fmt.Fprintf(&text, "export * from \"./%s_pb.js\";\n", strings.TrimSuffix(filepath.Base(file.GetName()), ".proto"))
	}
	return text.String()
}
