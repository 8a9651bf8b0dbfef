package server

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

func TestEveryListAndMapOfTheContractHasItsMost(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var look func(protoreflect.MessageDescriptor)
	look = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || isStruct(m) {
			return
		}
		seen[m.FullName()] = true
		for n := range m.Fields().Len() {
			field := m.Fields().Get(n)
			if field.Cardinality() == protoreflect.Repeated && mostItems(field) == 0 {
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
		t.Errorf("%d messages were looked at", len(seen))
	}
}

// largest repeats a part of a message up to the largest message.
func largest(part []byte) []byte { return slices.Repeat(part, messageBytes/len(part)) }

// part is a field on the wire.
func part(number protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), slices.Concat(parts...))
}

// decode decodes a message, and gives why it was refused, what was allocated for it and how long it took.
func decode(t *testing.T, wire []byte, message proto.Message) (bytes uint64, took time.Duration, refused error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	in := &received{ctx: t.Context(), message: message}
	if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, in); err != nil {
		t.Fatal(err)
	}
	took = time.Since(begin)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, took, in.err
}

func TestAListIsCountedBeforeAnythingIsBuiltOfIt(t *testing.T) {
	zeros := make([]byte, 1_250_000)
	null := part(1, []byte{8, 0})
	for _, row := range []struct {
		name, field string
		message     proto.Message
		wire        []byte
	}{
		{"D1, enum zeros in packed form", "filter.states", &easelv1.ListGenerationsRequest{}, part(3, part(2, zeros))},
		{"D1, enum zeros one by one", "filter.states", &easelv1.ListGenerationsRequest{}, part(3, largest([]byte{16, 0}))},
		{"D1, enum zeros in many filters", "filter.states", &easelv1.ListGenerationsRequest{}, largest(part(3, []byte{16, 0}))},
		{"dimensions", "group_by", &easelv1.ListUsageRequest{}, part(3, zeros)},
		{"labels of one name", "labels", &easelv1.CreateGenerationRequest{}, largest(part(6, part(1, []byte("a")), part(2, []byte("b"))))},
		{"ids", "generation_ids", &easelv1.WatchGenerationsRequest{}, largest(part(1, []byte("g")))},
		{"etags", "known_etags", &easelv1.WatchGenerationsRequest{}, largest(part(4, part(1, []byte("g"))))},
		{"nulls in one list", "inputs", &easelv1.QuoteGenerationRequest{}, part(2, part(1, part(2, part(6, largest(null)))))},
		{"nulls in many Structs", "inputs", &easelv1.QuoteGenerationRequest{}, largest(part(2, part(1, part(2, part(6, null)))))},
		{"members of one name", "inputs", &easelv1.CreateGenerationRequest{}, part(2, largest(part(1)))},
	} {
		t.Run(row.name, func(t *testing.T) {
			if plain := proto.Clone(row.message); proto.Unmarshal(row.wire, plain) != nil {
				t.Fatal("it is no such message")
			}
			bytes, took, refused := decode(t, row.wire, row.message)
			if refused == nil || !strings.Contains(refused.Error(), row.field+":") || proto.Size(row.message) > 1<<10 {
				t.Errorf("it was refused with %v", refused)
			}
			if bytes > 4<<20 || took > 10*time.Second {
				t.Errorf("it took %d bytes and %v", bytes, took)
			}
		})
	}
}

func TestWhatIsWithinTheRulesIsDecodedAsEver(t *testing.T) {
	nested := structpb.NewNullValue()
	for range 31 {
		nested = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": nested}})}})
	}
	for _, message := range []proto.Message{
		&easelv1.ListGenerationsRequest{PageSize: 3, Filter: &easelv1.GenerationFilter{States: []easelv1.State{1, 2, 3, 4, 5, 6, 7}, Labels: map[string]string{"a": "b"}}},
		&easelv1.QuoteGenerationRequest{Inputs: &structpb.Struct{Fields: map[string]*structpb.Value{"a": nested, "b": structpb.NewNumberValue(1)}}},
		&easelv1.WatchGenerationsRequest{GenerationIds: slices.Repeat([]string{"g"}, 1000)},
	} {
		wire, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		got := message.ProtoReflect().New().Interface()
		if _, _, refused := decode(t, wire, got); refused != nil || !proto.Equal(message, got) {
			t.Errorf("%v became %v: %v", message, got, refused)
		}
	}
}

func FuzzAMessageIsDecodedOrRefused(f *testing.F) {
	f.Add(part(3, part(2, make([]byte, 9))))
	f.Add(part(2, part(1, part(2, part(6, part(1, []byte{8, 0}))))))
	f.Add([]byte{0x12, 0x80})
	f.Fuzz(func(t *testing.T, wire []byte) {
		plain := &easelv1.CreateGenerationRequest{}
		valid := proto.Unmarshal(wire, plain) == nil
		if got := (&easelv1.CreateGenerationRequest{}); len(wire) < 1<<10 {
			if _, _, refused := decode(t, wire, got); valid && refused == nil && !proto.Equal(plain, got) {
				t.Errorf("%x became %v", wire, got)
			}
		}
	})
}
