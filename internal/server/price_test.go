package server

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// live is how many bytes are in use.
func live() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// dearest are the inputs of the largest requests that take most when they are decoded.
func dearest() map[string]*structpb.Struct {
	nulls := make([]*structpb.Value, service.MaxValues-2)
	for n := range nulls {
		nulls[n] = structpb.NewNullValue()
	}
	members := map[string]*structpb.Value{}
	for n := range service.MaxValues - 1 {
		members[fmt.Sprintf("%050d", n)] = structpb.NewNumberValue(1)
	}
	return map[string]*structpb.Struct{
		"a list":       {Fields: map[string]*structpb.Value{strings.Repeat("x", 1_100_000): structpb.NewListValue(&structpb.ListValue{Values: nulls})}},
		"many members": {Fields: members},
		"one text":     {Fields: map[string]*structpb.Value{"prompt": structpb.NewStringValue(strings.Repeat("x", 1_250_000))}},
	}
}

// A request stands in memory as it has come, in one piece, and decoded, all at the same time.
func TestTheDearestRequestCostsNoMoreThanAPlace(t *testing.T) { // D1 D2
	if testing.Short() {
		t.Skip("memory is not meaningful under the race detector; make test runs this without it")
	}
	for name, inputs := range dearest() {
		t.Run(name, func(t *testing.T) {
			wire, err := proto.Marshal(&easelv1.CreateGenerationRequest{ModelId: "m", IdempotencyKey: "k", Inputs: inputs})
			if err != nil || len(wire) > messageBytes || len(wire) < messageBytes*17/20 {
				t.Fatalf("%d bytes, %v", len(wire), err)
			}
			in := &received{ctx: t.Context(), message: &easelv1.CreateGenerationRequest{}}
			before := live()
			if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, in); err != nil || in.err != nil {
				t.Fatal(err, in.err)
			}
			decoded := live() - before
			runtime.KeepAlive(wire)
			runtime.KeepAlive(in)
			t.Logf("%d bytes, decoded %.2f MiB", len(wire), float64(decoded)/(1<<20))
			if all := 2*len(wire) + decoded; decoded < len(wire)/2 || all > placeBytes {
				t.Errorf("it takes %.2f MiB, of which %.2f MiB decoded", float64(all)/(1<<20), float64(decoded)/(1<<20))
			}
		})
	}
}

func TestAllPlacesFitIntoTheMemoryOfAPod(t *testing.T) {
	if all := callMemory(Limits{}.calls()); all > 1800<<20*9/10 {
		t.Errorf("the places of calls take %d MiB of GOMEMLIMIT=1800MiB", all>>20)
	}
}

// connBytes is what a connection takes without its calls.
const connBytes = 32 << 10

// callMemory is what all calls may take that have their turn at once, where so many orders may.
func callMemory(orders int) int { return withReserved(turnsOf(orders))[order] * placeBytes }
