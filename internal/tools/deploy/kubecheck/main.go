// Kubecheck checks Kubernetes manifests from standard input. It decodes each manifest to the API type for its kind, and
// rejects misspelled fields and wrong types. It needs no cluster and no network. Kinds that Kubernetes operators define
// are counted but not checked.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	read, foreign := 0, 0
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(in)); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		known, err := checkDocument(text)
		switch {
		case err != nil:
			return fmt.Errorf("%w in\n%s", err, text)
		case known:
			read++
		case len(bytes.TrimSpace(text)) > 0:
			foreign++
		}
	}
	if read == 0 {
		return errors.New("no manifests found")
	}
	_, err := fmt.Fprintf(out, "%d manifests match the schemas of Kubernetes; %d belong to an operator and were skipped\n", read, foreign)
	return err
}

// checkDocument decodes one document, and reports whether its kind is built into Kubernetes. It returns an error if a
// field is unknown or has the wrong type.
func checkDocument(text []byte) (bool, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return false, err
	}
	if head.Kind == "" {
		return false, nil // the document contains only comments
	}
	object, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
	if runtime.IsNotRegisteredError(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, yaml.UnmarshalStrict(text, object)
}
