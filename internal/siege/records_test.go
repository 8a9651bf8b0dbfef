package siege

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestAttackByReadsOfLargeRecords(t *testing.T) { // D6
	for name, more := range map[string]string{
		"900 KB of numbers": `"numbers":[` + strings.Repeat("1,", 450_000) + `1],`,
		"4 MB":              `"unknown":{"` + strings.Repeat(`x":"`+strings.Repeat("y", 90)+`","`, 40_000) + `z":1},`,
	} {
		t.Run(name, func(t *testing.T) {
			large := atomic.Pointer[string]{}
			s := newSiege(t, siegeConfig{ledger: newBook(t), before: func(catalog http.Handler) http.Handler {
				return changed(catalog, func(path string) bool { id := large.Load(); return id != nil && path == "/generations/"+*id }, func(body []byte) []byte {
					return bytes.Replace(body, []byte("{"), []byte("{"+more), 1)
				})
			}})
			s.readsOwn()
			conn := s.dialFrom("127.0.0.1")
			id, err := s.order(as(t.Context(), s.attacker), conn, "k", "rain")
			if err != nil {
				t.Fatal(err)
			}
			large.Store(&id)
			read := mustMarshal(t, &easelv1.GetGenerationRequest{GenerationId: id, MaxStaleness: durationpb.New(0)})
			s.beside(assault{
				workers: sizeOf(200, 20), least: 20, memory: 500 << 20,
				one: func(ctx context.Context, _ int) error {
					return invoke(ctx, conn, s.attacker, easelv1.GenerationService_GetGeneration_FullMethodName, read)
				},
			})
		})
	}
}
