package server_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/service"
)

func TestAStreamEndsWithTheCertificateOfItsCaller(t *testing.T) { // fault A9
	const heartbeat, life = 15 * time.Second, 100 * time.Second
	began := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // the time at which a synctest bubble starts
	for form, as := range forms {
		for name, stream := range streams {
			for why, replaced := range map[string]bool{"it has expired": false, "its authority is taken out": true} {
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
							t.Errorf("the stream ended %v after the certificate", late)
						}
						if replaced {
							wantRemoved(t, err)
							return
						}
						if name == "a wait" { // a WaitGeneration call that must end early returns the latest state
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

func TestADownloadGoesOnBehindTheCertificateOfItsCaller(t *testing.T) {
	end := time.Date(2000, time.January, 1, 0, 1, 40, 0, time.UTC)
	files, client, _ := server.Certified(t, &x509.Certificate{DNSNames: []string{"poster"}, NotAfter: end})
	file := filepath.Join(t.TempDir(), "callers")
	writeText(t, file, "callers: [{name: poster, certificates: [poster]}]\n")
	synctest.Test(t, func(t *testing.T) {
		c := grpcCaller{sharedStackFrom(t, file, func(o *options) {
			o.memory, o.sandbox.Speed, o.server.TLS, o.client, o.dialOptions = true, 1e6, files, client, windows
		}), ""}
		g := create(t, c, &easelv1.CreateGenerationRequest{ModelId: "studio/print", IdempotencyKey: "k", Inputs: inputs(t, map[string]any{"prompt": "x"})})
		wait(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
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
			t.Errorf("the stream ends with %v", err)
		}
	})
}
