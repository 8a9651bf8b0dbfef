package easel

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

func TestOnlyMethodsWithoutSideEffectsCountAsReads(t *testing.T) {
	methods := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("easel.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				path := "/" + string(service.FullName()) + "/" + string(method.Name())
				level := method.Options().(*descriptorpb.MethodOptions).GetIdempotencyLevel()
				if isRead(path) != (level == descriptorpb.MethodOptions_NO_SIDE_EFFECTS) {
					t.Errorf("method %s with the idempotency level %s: isRead returned %v", path, level, isRead(path))
				}
				methods++
			}
		}
		return true
	})
	if methods < 10 {
		t.Errorf("the contract has %d methods, want at least 10", methods)
	}
	for _, unknown := range []string{"/easel.v1.GenerationService/CancelGeneration", "/easel.v1.NewService/Order", "/grpc.health.v1.Health/Check", "", "/"} {
		if isRead(unknown) {
			t.Errorf("isRead reports that %q, which is not a method of the contract, is a read", unknown)
		}
	}
}
