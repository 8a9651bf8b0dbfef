package server_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// issuing is a token issuer and the callers file that lists it.
type issuing struct {
	*testing.T
	file string
	keys ed25519.PrivateKey
}

// startIssuing writes a callers file with a token issuer and with the callers poster and banner, which authenticate with
// tokens from this issuer.
func startIssuing(t *testing.T) issuing {
	t.Helper()
	i := issuing{T: t, file: filepath.Join(t.TempDir(), "callers")}
	_, made, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.keys = made
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.keys.Public(), KeyID: "one"}}})
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	for name, text := range map[string]string{keys: string(set), i.file: "issuers: [{issuer: i, audience: easel, jwks_file: '" + keys + "'}]\ncallers: [{name: poster, subjects: [poster]}, {name: banner, subjects: [banner]}]\n"} {
		writeText(t, name, text)
	}
	return i
}

// token creates a token for poster.
func (i issuing) token(expiry time.Time) string {
	i.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: i.keys}, (&jose.SignerOptions{}).WithHeader("kid", "one"))
	if err != nil {
		i.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(jwt.Claims{ID: rand.Text(), Issuer: "i", Subject: "poster", Audience: jwt.Audience{"easel"}, Expiry: jwt.NewNumericDate(expiry)}).Serialize()
	if err != nil {
		i.Fatal(err)
	}
	return text
}

func TestAStreamEndsWithTheTokenOfItsCaller(t *testing.T) {
	const leeway = 30 * time.Second // tolerated difference between clocks
	for form, as := range forms {
		for name, stream := range streams {
			t.Run(form+", "+name, func(t *testing.T) {
				issuer := startIssuing(t)
				synctest.Test(t, func(t *testing.T) {
					s := sharedStackFrom(t, issuer.file, func(o *options) { o.memory, o.sandbox.Speed = true, 0.01 })
					ctx, leave := context.WithTimeout(t.Context(), time.Hour)
					defer leave()
					expiry := time.Now().Add(100 * time.Second)
					c := as(s, issuer.token(expiry))
					id := create(t, c, order(t, picture, "k", "a lake")).GetGenerationId()
					err := stream(ctx, c, id, time.Minute)
					if late := time.Since(expiry); late < 0 || late > leeway+time.Second {
						t.Errorf("the stream ended %v after the token", late)
					}
					if name == "a wait" { // a WaitGeneration call that must end early returns the latest state
						if err != nil {
							t.Errorf("the stream ended with %v", err)
						}
					} else if st := statusOf(t, err); st.Code() != codes.Unavailable || service.Reason(st) != easelv1.ErrorReason_STREAM_MAX_AGE {
						t.Errorf("the stream ended with %v", err)
					}
					time.Sleep(leeway)
					wantRemoved(t, stream(ctx, c, id, time.Minute))
					renewed := as(s, issuer.token(time.Now().Add(time.Hour)))
					if err := renewed.call(ctx, "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: id}, &easelv1.GetGenerationResponse{}); err != nil {
						t.Errorf("under a new token: %v", err)
					}
				})
			})
		}
	}
}
