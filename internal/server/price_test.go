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
	"github.com/easel-grpc/easel/internal/content"
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
		t.Skip("it is of scale: .ci/nightly runs it")
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
	const limit = 1800 << 20 // GOMEMLIMIT
	if all := memoryOfCallers(); all > limit*9/10 {
		t.Errorf("what callers hold takes %d MiB of GOMEMLIMIT=1800MiB", all>>20)
	}
	if all := idleBytes + memoryOfNobody(); all > limit {
		t.Errorf("what needs no credential takes %d MiB of GOMEMLIMIT=1800MiB", all>>20)
	}
}

// Prices in bytes. Package siege measures them, as docs/operating.md prints them.
const (
	connBytes    = 32 << 10  // a connection without its calls
	publicBytes  = 120 << 10 // a call without a credential: its headers, and what it has sent
	pageBytes    = 104 << 10 // a page with the headers of its request
	refusalBytes = 56 << 10  // the same of a refusal, or a call that waits for a proof
	copyBytes    = 288 << 10 // a reader of a copy
	idleBytes    = 52 << 20  // a server that does nothing
)

// withSpare is how many of some places there are, those for callers with few among them.
func withSpare(n int) int { return n + n/spareShare }

// How many of these there are.
var (
	publicPlaces  = withSpare(publicCalls) + withSpare(allChecks)
	pagePlaces    = withSpare(publicCalls)
	refusalPlaces = withSpare(allRefusals) + withSpare(unprovedCalls)
)

// callMemory is what all calls may take that have their turn at once, where so many orders may.
func callMemory(orders int) int { return withReserved(turnsOf(orders))[order] * placeBytes }

// memoryOfCallers is what calls and readers of copies take, and memoryOfNobody what needs no credential.
func memoryOfCallers() int { return callMemory(Limits{}.calls()) + content.CopyReaders*copyBytes }

func memoryOfNobody() int {
	return withSpare(unprovedCalls)*streamWindow + publicPlaces*publicBytes + pagePlaces*pageBytes + refusalPlaces*refusalBytes + 2*Limits{}.conns()*connBytes
}
