package server

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

func isStruct(message protoreflect.MessageDescriptor) bool {
	return message.ParentFile().Path() == structpb.File_google_protobuf_struct_proto.Path()
}

func TestEveryListAndMapInContractHasMaximumSize(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var look func(protoreflect.MessageDescriptor)
	look = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || isStruct(m) {
			return
		}
		seen[m.FullName()] = true
		for n := range m.Fields().Len() {
			field := m.Fields().Get(n)
			if field.Cardinality() == protoreflect.Repeated && maxItems(field) == 0 {
				t.Errorf("%s has no max_items or max_pairs", field.FullName())
			}
			if field.Message() != nil {
				look(field.Message())
			}
		}
	}
	service.Methods(func(m protoreflect.MethodDescriptor) {
		look(m.Input())
		look(m.Output())
	})
	if len(seen) < 30 {
		t.Errorf("only %d messages were checked", len(seen))
	}
}

func TestOversizedListIsReportedAsOneViolation(t *testing.T) {
	check, err := newRules()
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]easelv1.State, 1_250_000)
	request := &easelv1.ListGenerationsRequest{Filter: &easelv1.GenerationFilter{States: zeros}}
	allocated := testing.AllocsPerRun(1, func() { err = check.checkRequest(nil, request) })
	if violations := service.Detail[*errdetails.BadRequest](service.Status(err)).GetFieldViolations(); len(violations) != 1 || violations[0].GetField() != "filter.states" {
		t.Errorf("got %v, want one violation of filter.states", err)
	}
	if allocated > 1000 {
		t.Errorf("got %v allocations, want at most 1000", allocated)
	}
}
