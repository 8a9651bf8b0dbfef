package server_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/service"
)

// streams contains a function for each call that can stay open for a long time. The function makes the call and returns
// the error that ended it.
var streams = map[string]func(ctx context.Context, c caller, id string, heartbeat time.Duration) error{
	"a watch": func(ctx context.Context, c caller, id string, heartbeat time.Duration) error {
		return c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: id, HeartbeatInterval: durationpb.New(heartbeat)}, func(*easelv1.WatchGenerationResponse) {})
	},
	"a watch of many renders": func(ctx context.Context, c caller, id string, heartbeat time.Duration) error {
		req := &easelv1.WatchGenerationsRequest{GenerationIds: []string{id}, HeartbeatInterval: durationpb.New(heartbeat)}
		return c.watchMany(ctx, req, toTheEnd)
	},
	"a wait": func(ctx context.Context, c caller, id string, _ time.Duration) error {
		req := &easelv1.WaitGenerationRequest{GenerationId: id, Timeout: durationpb.New(10 * time.Minute)}
		return c.call(ctx, "GenerationService/WaitGeneration", req, &easelv1.WaitGenerationResponse{})
	},
}

func TestAttackByRemovedCallerEndsAtNextHeartbeat(t *testing.T) {
	const heartbeat = 15 * time.Second
	for form, as := range forms {
		for name, stream := range streams {
			t.Run(form+", "+name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "callers")
				synctest.Test(t, func(t *testing.T) {
					writeCallers(t, file, "", "shop", "blog")
					s := sharedStackFrom(t, file, func(o *options) { o.memory, o.sandbox.Speed = true, 0.01 })
					ctx, leave := context.WithCancel(t.Context())
					id := create(t, as(s, "shop"), order(t, picture, "k", "a lake")).GetGenerationId()
					neighbours := create(t, as(s, "blog"), order(t, picture, "k", "a lake")).GetGenerationId()
					removed, neighbour := make(chan error, 1), make(chan error, 1)
					go func() { removed <- stream(ctx, as(s, "shop"), id, heartbeat) }()
					go func() { neighbour <- stream(ctx, as(s, "blog"), neighbours, heartbeat) }()
					time.Sleep(heartbeat / 2)

					writeCallers(t, file, "", "blog")
					began := time.Now()
					wantRemoved(t, <-removed)
					if took := time.Since(began); took > heartbeat+reload.Interval {
						t.Errorf("the stream continued for %v", took)
					}
					time.Sleep(2 * heartbeat)
					select {
					case err := <-neighbour:
						t.Errorf("another caller's stream ended with %v", err)
					default:
					}
					leave()
					<-neighbour
				})
			})
		}
	}
}

// wantRemoved checks that err is the error of a stream that the server ended because it no longer knows the caller.
func wantRemoved(t *testing.T, err error) {
	t.Helper()
	if st := statusOf(t, err); st.Code() != codes.Unauthenticated || service.Reason(st) != easelv1.ErrorReason_CALLER_UNKNOWN {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestStreamEndsIfItsCallersTeamOrRoleChanges(t *testing.T) {
	for name, changed := range map[string]string{
		"another team":            "teams: {a: {}, b: {}}\ncallers: [{name: shop, team: b, operator: true, %s}]\n",
		"no team":                 "teams: {a: {}}\ncallers: [{name: shop, operator: true, %s}]\n",
		"no longer an operator":   "teams: {a: {}}\ncallers: [{name: shop, team: a, %s}]\n",
		"token of another caller": "teams: {a: {}}\ncallers: [{name: blog, team: a, operator: true, %s}]\n",
		"other limits":            "teams: {a: {budget: {daily_cents: 1}}}\ncallers: [{name: shop, team: a, operator: true, %s}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "callers")
			write := func(text string) { writeText(t, file, fmt.Sprintf(text, "tokens: ["+auth.Hash("shop")+"]")) }
			synctest.Test(t, func(t *testing.T) {
				write("teams: {a: {}}\ncallers: [{name: shop, team: a, operator: true, %s}]\n")
				s := sharedStackFrom(t, file, func(o *options) { o.memory, o.sandbox.Speed = true, 0.01 })
				c := grpcCaller{s, "shop"}
				id := create(t, c, order(t, picture, "k", "a lake")).GetGenerationId()
				ctx, leave := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- streams["a watch"](ctx, c, id, time.Second); close(ended) }()
				time.Sleep(time.Second)
				write(changed)
				time.Sleep(5 * time.Second)
				if name != "other limits" {
					wantRemoved(t, <-ended)
				}
				leave()
				if err := <-ended; name == "other limits" && status.Code(err) != codes.Canceled {
					t.Errorf("the stream ended with %v", err)
				}
			})
		})
	}
}

func TestStreamEndsWhenCallersCertificateBecomesInvalid(t *testing.T) {
	const heartbeat, life = 15 * time.Second, 100 * time.Second
	began := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // the time at which a synctest bubble starts
	for form, as := range forms {
		for name, stream := range streams {
			for why, replaced := range map[string]bool{"expired certificate": false, "removed CA": true} {
				t.Run(form+", "+name+", "+why, func(t *testing.T) {
					files, client, replace := server.Certified(t, &x509.Certificate{DNSNames: []string{"poster"}, NotAfter: began.Add(life)})
					file := filepath.Join(t.TempDir(), "callers")
					writeText(t, file, "callers: [{name: poster, certificates: [poster]}]\n")
					synctest.Test(t, func(t *testing.T) {
						s := sharedStackFrom(t, file, func(o *options) {
							o.memory, o.sandbox.Speed, o.server.TLS, o.client = true, 0.01, files, client
						})
						ctx, leave := context.WithTimeout(t.Context(), time.Hour)
						defer leave()
						c := as(s, "")
						id := create(t, c, order(t, picture, "k", "a lake")).GetGenerationId()
						end := began.Add(life)
						if replaced {
							end = began.Add(life / 2)
							time.AfterFunc(time.Until(end), func() { replace(); s.front.Certificates().Reload() })
						}
						err := stream(ctx, c, id, heartbeat)
						late := time.Since(end)
						if late < 0 || late > 16*time.Second || !replaced && late > time.Second {
							t.Errorf("the stream ended %v after the certificate became invalid", late)
						}
						if replaced {
							wantRemoved(t, err)
							return
						}
						if name == "a wait" { // after the credential has expired, WaitGeneration returns the latest state instead of an error
							if err != nil {
								t.Errorf("the stream ended with %v", err)
							}
						} else if st := statusOf(t, err); st.Code() != codes.Unavailable || service.Reason(st) != easelv1.ErrorReason_STREAM_MAX_AGE {
							t.Errorf("the stream ended with %v", err)
						}
					})
				})
			}
		}
	}
}

func TestDownloadContinuesAfterCallersCertificateExpires(t *testing.T) {
	end := time.Date(2000, time.January, 1, 0, 1, 40, 0, time.UTC)
	files, client, _ := server.Certified(t, &x509.Certificate{DNSNames: []string{"poster"}, NotAfter: end})
	file := filepath.Join(t.TempDir(), "callers")
	writeText(t, file, "callers: [{name: poster, certificates: [poster]}]\n")
	synctest.Test(t, func(t *testing.T) {
		c := grpcCaller{sharedStackFrom(t, file, func(o *options) {
			o.memory, o.sandbox.Speed, o.server.TLS, o.client, o.dialOptions = true, 1e6, files, client, windows
		}), ""}
		g := create(t, c, &easelv1.CreateGenerationRequest{ModelId: "studio/print", IdempotencyKey: "k", Inputs: inputs(t, map[string]any{"prompt": "x"})})
		awaitGeneration(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
		time.Sleep(time.Until(end) - 10*time.Second)
		stream, err := easelv1.NewGenerationServiceClient(c.grpc).DownloadGeneration(c.keyed(t.Context()), &easelv1.DownloadGenerationRequest{GenerationId: g.GetGenerationId()})
		if err == nil {
			_, err = stream.Recv()
		}
		time.Sleep(time.Until(end) + time.Second)
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("the download ended with %v", err)
		}
	})
}

// issuing contains the signing key of a token issuer and the path of the callers file that lists this issuer.
type issuing struct {
	*testing.T
	file string
	keys ed25519.PrivateKey
}

// startIssuing writes a callers file with a token issuer and with the callers "poster" and "banner", which authenticate with
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

// createToken creates a token that expires at the given time, for the caller "poster".
func (i issuing) createToken(expiry time.Time) string {
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

func TestStreamEndsWhenItsCallersTokenExpires(t *testing.T) {
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
					c := as(s, issuer.createToken(expiry))
					id := create(t, c, order(t, picture, "k", "a lake")).GetGenerationId()
					err := stream(ctx, c, id, time.Minute)
					if late := time.Since(expiry); late < 0 || late > leeway+time.Second {
						t.Errorf("the stream ended %v after the token expired", late)
					}
					if name == "a wait" { // when the credential expires, WaitGeneration returns the latest state instead of an error
						if err != nil {
							t.Errorf("the stream ended with %v", err)
						}
					} else if st := statusOf(t, err); st.Code() != codes.Unavailable || service.Reason(st) != easelv1.ErrorReason_STREAM_MAX_AGE {
						t.Errorf("the stream ended with %v", err)
					}
					time.Sleep(leeway)
					wantRemoved(t, stream(ctx, c, id, time.Minute))
					renewed := as(s, issuer.createToken(time.Now().Add(time.Hour)))
					if err := renewed.call(ctx, "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: id}, &easelv1.GetGenerationResponse{}); err != nil {
						t.Errorf("a call with a new token returned %v", err)
					}
				})
			})
		}
	}
}
