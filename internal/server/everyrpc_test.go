package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/easel-grpc/easel/internal/server"
)

// notResent contains the unary calls that a client library must not retry automatically, each with the reason.
var notResent = map[string]string{
	"GenerationService/DeleteGeneration": "the second delete of a generation returns NOT_FOUND",
}

func TestServedRPCsMatchContract(t *testing.T) {
	retried, all := retriedMethods(t), contractMethods()
	for _, m := range all {
		name := string(m.Parent().Name() + "/" + m.Name())
		full := "/easel.v1." + name
		_, alone := notResent[name]
		if !server.FullMethods()[full] {
			t.Errorf("%s is not served: add its service to Services of package service", name)
		}
		if retried[name] == (m.IsStreamingServer() || alone) {
			t.Errorf("%s: the retryPolicy in proto/easel/v1/service_config.json must list all unary calls except those in notResent", name)
		}
		if m.IsStreamingServer() && !server.LongLived(full) {
			t.Errorf("%s does not count as a stream: add it to longLived", name)
		}
		if !inErrorTable(name) {
			t.Errorf("%s has no row in errorTable", name)
		}
	}
	if len(all) < 12 || len(server.FullMethods()) != len(all) {
		t.Errorf("the contract has %d methods, but the server has %d", len(all), len(server.FullMethods()))
	}
}

// contractMethods returns the methods of all services in the contract.
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

// retriedMethods returns the methods that the service config allows a client library to retry.
func retriedMethods(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "proto", "easel", "v1", "service_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		MethodConfig []struct {
			Name        []struct{ Service, Method string }
			RetryPolicy *struct{}
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
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
