package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/easel-grpc/easel/internal/server"
)

// notResent are the unary calls that a client's library must not send again by itself.
var notResent = map[string]string{
	"GenerationService/DeleteGeneration": "the second delete of a generation answers NOT_FOUND",
}

// notSimulated are the calls that the simulation leaves out.
var notSimulated = map[string]string{
	"AccountService/GetAccount":         "one read of the catalog, of which the hub knows nothing",
	"ModelService/ListModels":           "one read of the catalog, as GetAccount is",
	"ModelService/GetModel":             "the same",
	"GenerationService/QuoteGeneration": "the same: a quote moves no money",
}

// TestEveryRPCStandsInEachPlaceThatMustKnowIt tells who adds an RPC which file to edit.
func TestEveryRPCStandsInEachPlaceThatMustKnowIt(t *testing.T) {
	retried, answers, simulated := retriedMethods(t), sourceOf(t, "internal/tools/openapi/answers.go"), sourceOf(t, "internal/simulation/*_test.go")
	program := sourceOf(t, "internal/*/*.go")
	all := contractMethods()
	for _, m := range all {
		name := string(m.Parent().Name() + "/" + m.Name())
		full := "/easel.v1." + name
		_, alone := notResent[name]
		_, left := notSimulated[name]
		for _, place := range []struct {
			stands           bool
			file, name, edit string
		}{
			{
				server.FullMethods()[full], "internal/service/contract.go", "Services",
				"name its service there",
			},
			{
				retried[name] != (m.IsStreamingServer() || alone), "proto/easel/v1/service_config.json", "retryPolicy",
				"a unary call stands there, so that clients retry it on UNAVAILABLE, or in notResent of this test with the reason; a stream in neither",
			},
			{
				server.LongLived(full) || !m.IsStreamingServer(), "internal/server/chain.go", "longLived",
				"a stream stands there",
			},
			{
				!m.IsStreamingServer() || strings.Contains(program, `"`+pathOf(t, name)+`"`), "internal/rest/gateway.go", "handleStreams",
				"a stream has a handler of its own: the gateway's writes neither server-sent events nor an error that a client can tell from an event",
			},
			{
				regexp.MustCompile(`(?m)^\t"` + string(m.Name()) + `": +\{`).MatchString(answers), "internal/tools/openapi/answers.go", "particular",
				"say with which statuses it may answer, then run make generate",
			},
			{
				inErrorTable(name), "internal/server/errortable_test.go", "errorCalls",
				"add it there and to row.make, and a row to errorTable: what the catalog answers and what the caller is told",
			},
			{
				strings.Contains(simulated, "."+string(m.Name())+"(") != left, "internal/simulation/reader_test.go", "tryEveryCall",
				"let a caller of the simulation make it and the checker look at what comes of it, or name it in notSimulated of this test with the reason; not both",
			},
		} {
			if !place.stands {
				t.Errorf("%s: edit %s, %s: %s", name, place.file, place.name, place.edit)
			}
			if !strings.Contains(sourceOf(t, place.file), place.name) {
				t.Errorf("there is no %s in %s any more: tell this test where it is", place.name, place.file)
			}
		}
	}
	if len(all) < 12 || len(server.FullMethods()) != len(all) {
		t.Errorf("the contract has %d methods, and the server knows %d", len(all), len(server.FullMethods()))
	}
}

// contractMethods are the methods of every service that the program's contract has.
func contractMethods() (all []protoreflect.MethodDescriptor) {
	protoregistry.GlobalFiles.RangeFilesByPackage("easel.v1", func(file protoreflect.FileDescriptor) bool {
		for s := range file.Services().Len() {
			for m := range file.Services().Get(s).Methods().Len() {
				all = append(all, file.Services().Get(s).Methods().Get(m))
			}
		}
		return true
	})
	return all
}

// pathOf is the REST path of a method.
func pathOf(t *testing.T, method string) string {
	t.Helper()
	_, path, _ := httpRule(t, method)
	return path
}

// retriedMethods are those that the service config lets a library retry.
func retriedMethods(t *testing.T) map[string]bool {
	t.Helper()
	var config struct {
		MethodConfig []struct {
			Name        []struct{ Service, Method string }
			RetryPolicy *struct{}
		}
	}
	if err := json.Unmarshal([]byte(sourceOf(t, "proto/easel/v1/service_config.json")), &config); err != nil {
		t.Fatal(err)
	}
	retried := map[string]bool{}
	for _, some := range config.MethodConfig {
		for _, one := range some.Name {
			retried[strings.TrimPrefix(fmt.Sprintf("%s/%s", one.Service, one.Method), "easel.v1.")] = some.RetryPolicy != nil
		}
	}
	return retried
}

func inErrorTable(method string) bool {
	return slices.ContainsFunc(errorTable, func(r row) bool { return errorCalls[r.call].method == method })
}

// sourceOf is the text of the files of the repository that match a pattern, without tests unless it
// names them.
func sourceOf(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") != strings.HasSuffix(pattern, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
