package siege

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

// largest is the maximum size of a request message, in bytes.
const largest = 1280 << 10

// call is a unary call that the attacker sends. body is the encoded request.
type call struct {
	method string
	body   []byte
}

// fixedCall returns a function that ignores its arguments and returns a call with the given method and body.
func fixedCall(method string, body []byte) func(*siege, *grpc.ClientConn) call {
	return func(*siege, *grpc.ClientConn) call { return call{method, body} }
}

// readLarge orders a render with the prompt "large" and returns a call that reads it. If the catalog is wrapped with
// [addMembers], the render's record has additional members.
func readLarge(s *siege, conn *grpc.ClientConn) call {
	id, err := s.placeOrder(proctest.Bearing(s.t.Context(), s.attacker), conn, "k", "large")
	if err != nil {
		s.t.Fatal(err)
	}
	return call{
		easelv1.GenerationService_GetGeneration_FullMethodName,
		mustMarshal(s.t, &easelv1.GetGenerationRequest{GenerationId: id, MaxStaleness: durationpb.New(0)}),
	}
}

// addMembers returns a function that wraps a catalog and adds members to the records of renders with the prompt
// "large".
func addMembers(members string) func(http.Handler) http.Handler {
	return func(catalog http.Handler) http.Handler {
		return changeResponses(catalog, func(path string) bool { return strings.HasPrefix(path, "/generations/") }, func(body []byte) []byte {
			if !bytes.Contains(body, []byte(`"large"`)) {
				return body
			}
			return bytes.Replace(body, []byte("{"), []byte("{"+members), 1)
		})
	}
}

func TestAttackByLargeMessagesDoesNotDelayOtherTeams(t *testing.T) {
	zeros, name := make([]byte, largest-100), strings.Repeat("n", 500_000)
	nulls := bytes.Repeat(encodeField(1, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 0)), 125_000)
	asStruct := append(encodeField(1, []byte("studio/haiku")),
		encodeField(2, encodeField(1, append(encodeField(1, []byte(name)), encodeField(2, encodeField(6, nulls))...)))...)
	asText := mustMarshal(t, &easelv1.QuoteGenerationRequest{ModelId: "studio/haiku", InputsJson: `{"` + name + `":[` + strings.Repeat("null,", 100_000) + `null]}`})
	list := mustMarshal(t, &easelv1.ListGenerationsRequest{PageSize: 1000})
	long := func(catalog http.Handler) http.Handler {
		return spliceRecords(catalog, "/generations", foreignRecords(6_800_000))
	}
	for name, row := range map[string]struct {
		catalog func(http.Handler) http.Handler // wraps the catalog; may be nil
		workers int
		call    func(*siege, *grpc.ClientConn) call
		cpu     time.Duration // maximum processor time that the server may use per call; zero means no limit
	}{
		"states of a filter": {
			nil, 4, fixedCall(easelv1.GenerationService_ListGenerations_FullMethodName, encodeField(3, encodeField(2, zeros))), 250 * time.Millisecond,
		},
		"dimensions of a report": {nil, 4, fixedCall(easelv1.AccountService_ListUsage_FullMethodName, encodeField(3, zeros)), 250 * time.Millisecond},
		"labels of an order": {
			nil, 4, fixedCall(easelv1.GenerationService_CreateGeneration_FullMethodName, bytes.Repeat(encodeField(6, encodeField(1, []byte("x"))), (largest-100)/5)), 250 * time.Millisecond,
		},
		"nulls in a Struct":         {quotesAtOnce, 4, fixedCall(easelv1.GenerationService_QuoteGeneration_FullMethodName, asStruct), 250 * time.Millisecond},
		"nulls in JSON":             {quotesAtOnce, 4, fixedCall(easelv1.GenerationService_QuoteGeneration_FullMethodName, asText), 250 * time.Millisecond},
		"lists of a long catalog":   {long, 150, fixedCall(easelv1.GenerationService_ListGenerations_FullMethodName, list), 0},
		"records with many numbers": {addMembers(`"numbers":[` + strings.Repeat("1,", 450_000) + `1],`), 200, readLarge, 0},
		"records of four megabytes": {addMembers(`"unknown":{` + strings.Repeat(`"x":"`+strings.Repeat("y", 90)+`",`, 40_000) + `"z":1},`), 200, readLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, siegeConfig{ledger: newLedger(t), before: row.catalog})
			s.setOwnReads()
			conn := s.dialFrom("127.0.0.1")
			attack := row.call(s, conn)
			s.runAlongside(assault{
				workers: min(row.workers, sizeOf(200, 20)), least: 4, memory: 250 << 20, cpu: row.cpu,
				one: func(ctx context.Context, _ int) error {
					return invoke(ctx, conn, s.attacker, attack.method, attack.body)
				},
			})
		})
	}
}
