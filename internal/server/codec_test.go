package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestLargeRequestsLeaveAProcessorToOthers(t *testing.T) {
	large, err := protobuf.Marshal(&easelv1.Generation{GenerationId: strings.Repeat("a", largeMessage)})
	if err != nil {
		t.Fatal(err)
	}
	for range cap(largeDecodes) {
		largeDecodes <- struct{}{} // simulates a server that is decoding the maximum number of large requests
	}
	done, codec := make(chan error, 1), encoding.GetCodecV2(proto.Name)
	go func() { done <- codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(large)}, &easelv1.Generation{}) }()
	if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(large[:0])}, &easelv1.Generation{}); err != nil {
		t.Errorf("a small request: %v", err)
	}
	select {
	case <-done:
		t.Error("a large request was decoded above the limit")
	case <-time.After(50 * time.Millisecond):
	}
	for range cap(largeDecodes) {
		<-largeDecodes
	}
	if err := <-done; err != nil || len(largeDecodes) > 0 {
		t.Errorf("afterwards: %v, and %d slots are in use", err, len(largeDecodes))
	}
}
