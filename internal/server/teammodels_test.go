package server_test

import (
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/server"
)

// overTeamOfModels runs a scenario for a team, over gRPC and over REST. The scenario gets three callers in the team,
// who authenticate in different ways, an operator in the same team, and a function that changes the models that the
// team may use.
func overTeamOfModels(t *testing.T, scenario func(t *testing.T, s *stack, team map[string]caller, ops caller, setModels func(models string))) {
	for form, as := range forms {
		t.Run(form, func(t *testing.T) {
			files, client, _ := server.Certified(t, &x509.Certificate{DNSNames: []string{"poster"}, NotAfter: time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)})
			issuer := startIssuing(t)
			head, err := os.ReadFile(issuer.file)
			if err != nil {
				t.Fatal(err)
			}
			issuers, _, _ := strings.Cut(string(head), "callers:")
			write := func(models string) {
				writeText(t, issuer.file, issuers+fmt.Sprintf("teams: {studio: {models: %s}}\ncallers:\n  - {name: a, team: studio, certificates: [poster]}\n"+
					"  - {name: b, team: studio, subjects: [poster]}\n  - {name: c, team: studio, tokens: [%s]}\n  - {name: ops, team: studio, operator: true, tokens: [%s]}\n",
					models, auth.Hash("token-of-c"), auth.Hash("token-of-ops")))
			}
			write("[" + text + "]")
			synctest.Test(t, func(t *testing.T) {
				s := sharedStackFrom(t, issuer.file, func(o *options) { o.memory, o.server.TLS, o.client = true, files, client })
				team := map[string]caller{"a certificate": as(s, ""), "a token": as(s, "token-of-c"), "a JWT": as(s, issuer.createToken(time.Now().Add(time.Hour)))}
				scenario(t, s, team, as(s, "token-of-ops"), func(models string) {
					write(models)
					time.Sleep(2 * reload.Interval)
					synctest.Wait()
				})
			})
		})
	}
}

func writeText(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func listedModels(t *testing.T, c caller) (ids []string) {
	t.Helper()
	resp := &easelv1.ListModelsResponse{}
	if err := c.call(t.Context(), "ModelService/ListModels", &easelv1.ListModelsRequest{}, resp); err != nil {
		t.Fatal(err)
	}
	for _, m := range resp.GetModels() {
		ids = append(ids, m.GetModelId())
	}
	return ids
}

func quoteOf(t *testing.T, c caller, model string) error {
	t.Helper()
	req := order(t, model, "k", "a lake")
	return c.call(t.Context(), "GenerationService/QuoteGeneration", &easelv1.QuoteGenerationRequest{ModelId: model, Inputs: req.GetInputs()}, &easelv1.QuoteGenerationResponse{})
}

func TestATeamUsesOnlyItsModels(t *testing.T) {
	overTeamOfModels(t, func(t *testing.T, s *stack, team map[string]caller, ops caller, _ func(string)) {
		if all := listedModels(t, ops); !slices.Contains(all, picture) || !slices.Contains(all, text) {
			t.Errorf("an operator lists %q", all)
		}
		for name, c := range team {
			if ids := listedModels(t, c); !slices.Equal(ids, []string{text}) {
				t.Errorf("%s lists %q", name, ids)
			}
			if _, err := model(t, c, text); err != nil {
				t.Errorf("%s: GetModel of an allowed model returned %v", name, err)
			}
			if err := quoteOf(t, c, text); err != nil {
				t.Errorf("%s: a quote for an allowed model returned %v", name, err)
			}
			for _, id := range []string{picture, "studio/none"} {
				_, err := model(t, c, id)
				for call, err := range map[string]error{
					"GetModel": err, "QuoteGeneration": quoteOf(t, c, id),
					"CreateGeneration": c.call(t.Context(), "GenerationService/CreateGeneration", order(t, id, strings.ReplaceAll(name, " ", "-"), "a lake"), &easelv1.CreateGenerationResponse{}),
				} {
					if err == nil {
						t.Errorf("%s of %s by %s succeeded", call, id, name)
						continue
					}
					wantStatus(t, err, codes.PermissionDenied, "MODEL_NOT_ALLOWED", 403)
				}
			}
		}
		if n := len(s.audit().ChargesByIdempotencyKey); n != 0 {
			t.Errorf("%d orders were charged", n)
		}
		if _, err := model(t, ops, picture); err != nil {
			t.Error(err)
		}
		if err := quoteOf(t, ops, picture); err != nil {
			t.Error(err)
		}
		create(t, ops, order(t, picture, "of-ops", "a lake"))
	})
}

func TestTeamCanReadOldOrdersOfForbiddenModel(t *testing.T) {
	overTeamOfModels(t, func(t *testing.T, _ *stack, team map[string]caller, _ caller, limit func(string)) {
		limit("[" + picture + "]")
		c := team["a token"]
		id := create(t, c, order(t, picture, "k", "a lake")).GetGenerationId()
		limit("[" + text + "]")
		if _, err := model(t, c, picture); err == nil {
			t.Fatal("the team can still read the removed model")
		}
		if again := createFully(t, c, order(t, picture, "k", "a lake")); again.GetGeneration().GetGenerationId() != id || !again.GetReplayed() {
			t.Errorf("repeating the order returned %v", again)
		}
		done := false
		if err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: id}, func(m *easelv1.WatchGenerationResponse) {
			done = done || m.GetUpdate().GetGeneration().GetState() == easelv1.State_STATE_SUCCEEDED
		}); err != nil || !done {
			t.Errorf("the watch ended with %v, succeeded: %v", err, done)
		}
		if err := c.call(t.Context(), "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: id}, &easelv1.GetGenerationResponse{}); err != nil {
			t.Errorf("GetGeneration returned %v", err)
		}
		listed := &easelv1.ListGenerationsResponse{}
		if err := c.call(t.Context(), "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{}, listed); err != nil || len(listed.GetGenerations()) != 1 {
			t.Errorf("ListGenerations returned %v, %v", listed, err)
		}
		if bytes, err := downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: id}); err != nil || len(bytes) == 0 {
			t.Errorf("downloaded %d bytes, %v", len(bytes), err)
		}
	})
}

func model(t *testing.T, c caller, id string) (*easelv1.Model, error) {
	t.Helper()
	resp := &easelv1.GetModelResponse{}
	err := c.call(t.Context(), "ModelService/GetModel", &easelv1.GetModelRequest{ModelId: id}, resp)
	return resp.GetModel(), err
}
