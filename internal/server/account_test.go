package server_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestTheAccountIsForOperatorsBehindACallersFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "callers")
	lines := fmt.Sprintf("callers:\n  - {name: shop, tokens: [sha256:%x]}\n  - {name: ops, operator: true, tokens: [sha256:%x]}\n",
		sha256.Sum256([]byte("shop")), sha256.Sum256([]byte("ops")))
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	s := heldStackFrom(t, file)
	for name, sees := range map[string]bool{"shop": false, "ops": true} {
		for _, c := range []caller{grpcCaller{s, name}, restCaller{s, name}} {
			account, quote := &easelv1.GetAccountResponse{}, &easelv1.QuoteGenerationResponse{}
			if err := c.call(t.Context(), "AccountService/GetAccount", &easelv1.GetAccountRequest{}, account); err != nil {
				t.Fatal(err)
			}
			req := &easelv1.QuoteGenerationRequest{ModelId: text, Inputs: &structpb.Struct{Fields: map[string]*structpb.Value{"prompt": structpb.NewStringValue("rain")}}}
			if err := c.call(t.Context(), "GenerationService/QuoteGeneration", req, quote); err != nil {
				t.Fatal(err)
			}
			if a := account.GetAccount(); (a.BalanceCents != nil) != sees || !sees && a.GetUpstreamFields() != nil || a.GetObserveTime() == nil {
				t.Errorf("%s sees the account %v", name, a)
			}
			if q := quote.GetQuote(); (q.BalanceCents != nil) != sees || (q.Affordable != nil) != sees || q.GetPriceCents() == 0 {
				t.Errorf("%s sees the quote %v", name, q)
			}
		}
	}
}
