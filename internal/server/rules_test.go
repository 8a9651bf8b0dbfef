package server

import (
	"math"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func FuzzWhatIsPlainlySoundKeepsTheRules(f *testing.F) { // I3
	rules, err := newRules()
	if err != nil {
		f.Fatal(err)
	}
	for _, id := range []string{"gen_8qn1x08zckpva1f6kns7", "", ".", "..", "a/b", `a\b`, "a b", "é", "\x7f", "~!", string(make([]byte, 257))} {
		f.Add(id, true, int64(0), int32(0))
	}
	f.Add("g", false, int64(0), int32(0))
	f.Add("g", true, int64(-1), int32(0))
	f.Add("g", true, int64(0), int32(-1))
	f.Add("g", true, int64(1), int32(-1))
	f.Add("g", true, int64(math.MaxInt64), int32(math.MaxInt32))
	f.Fuzz(func(t *testing.T, id string, limited bool, seconds int64, nanos int32) {
		request := &easelv1.GetGenerationRequest{GenerationId: id}
		if limited {
			request.MaxStaleness = &durationpb.Duration{Seconds: seconds, Nanos: nanos}
		}
		if err := rules.validator.Validate(request); plainlySound(request) && err != nil {
			t.Errorf("%v breaks a rule: %v", request, err)
		}
	})
}

func TestTheRequestThatComesMostOftenIsPlainlySound(t *testing.T) {
	for _, limit := range []*durationpb.Duration{nil, {}, {Seconds: 5}} {
		if !plainlySound(&easelv1.GetGenerationRequest{GenerationId: "gen_8qn1x08zckpva1f6kns7", MaxStaleness: limit}) {
			t.Errorf("with a limit of %v it is not", limit)
		}
	}
}

func BenchmarkTheRulesOfARead(b *testing.B) {
	rules, err := newRules()
	if err != nil {
		b.Fatal(err)
	}
	request := &easelv1.GetGenerationRequest{GenerationId: "gen_8qn1x08zckpva1f6kns7", MaxStaleness: &durationpb.Duration{}}
	b.Run("plainly", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := rules.check(b.Context(), request); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by the engine", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := rules.validator.Validate(request); err != nil {
				b.Fatal(err)
			}
		}
	})
}
