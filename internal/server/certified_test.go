package server_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/service"
)

func TestAStreamEndsWithTheCertificateOfItsCaller(t *testing.T) { // A9
	const heartbeat, life = 15 * time.Second, 100 * time.Second
	began := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // as time begins in a test
	for form, as := range forms {
		for name, stream := range streams {
			for why, replaced := range map[string]bool{"it has expired": false, "its authority is taken out": true} {
				t.Run(form+", "+name+", "+why, func(t *testing.T) {
					files, client, replace := server.Certified(t, &x509.Certificate{DNSNames: []string{"poster"}, NotAfter: began.Add(life)})
					file := filepath.Join(t.TempDir(), "callers")
					if err := os.WriteFile(file, []byte("callers: [{name: poster, certificates: [poster]}]\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					synctest.Test(t, func(t *testing.T) {
						s := heldStackFrom(t, file, func(o *options) {
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
							t.Errorf("it ended %v after the certificate", late)
						}
						if replaced {
							wantRemoved(t, err)
							return
						}
						if name == "a wait" { // which answers with the newest state
							if err != nil {
								t.Errorf("it ended with %v", err)
							}
						} else if st := statusOf(t, err); st.Code() != codes.Unavailable || service.Reason(st) != easelv1.ErrorReason_STREAM_MAX_AGE {
							t.Errorf("it ended with %v", err)
						}
					})
				})
			}
		}
	}
}

// certifiedUntil is a poster whose certificate ends soon.
func certifiedUntil(t *testing.T, life time.Duration, speed float64, test func(t *testing.T, c grpcCaller, end time.Time)) {
	t.Helper()
	end := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).Add(life) // as time begins in a test
	files, client, _ := server.Certified(t, &x509.Certificate{DNSNames: []string{"poster"}, NotAfter: end})
	file := filepath.Join(t.TempDir(), "callers")
	if err := os.WriteFile(file, []byte("callers: [{name: poster, certificates: [poster]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := heldStackFrom(t, file, func(o *options) {
			o.memory, o.sandbox.Speed, o.server.TLS, o.client, o.dialOptions = true, speed, files, client, windows
		})
		test(t, grpcCaller{s, ""}, end)
	})
}

func TestADownloadGoesOnBehindTheCertificateOfItsCaller(t *testing.T) {
	certifiedUntil(t, 100*time.Second, 1e6, func(t *testing.T, c grpcCaller, end time.Time) {
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
			t.Errorf("it ends with %v", err)
		}
	})
}

// A caller that reads slowly has messages left when its certificate ends.
func TestAWatchIsAskedToComeBackThoughMessagesAreLeft(t *testing.T) {
	certifiedUntil(t, 100*time.Second, 0.01, func(t *testing.T, c grpcCaller, end time.Time) {
		labels, ids := map[string]string{}, []string{}
		for n := range 16 {
			labels[fmt.Sprint("l", n)] = strings.Repeat("x", 250)
		}
		for n := range 60 {
			ids = append(ids, create(t, c, labelled(t, picture, fmt.Sprint("k", n), labels)).GetGenerationId())
		}
		time.Sleep(time.Until(end) - 10*time.Second)
		stream, err := easelv1.NewGenerationServiceClient(c.grpc).WatchGenerations(c.keyed(t.Context()), &easelv1.WatchGenerationsRequest{GenerationIds: ids})
		time.Sleep(time.Until(end) + time.Second)
		var last *easelv1.WatchGenerationsResponse
		for err == nil {
			var m *easelv1.WatchGenerationsResponse
			if m, err = stream.Recv(); err == nil {
				last = m
			}
		}
		if last.GetClosing().GetReason() != easelv1.StreamClosingReason_STREAM_CLOSING_REASON_MAX_AGE {
			t.Errorf("behind %v it ends with %v", last, err)
		}
	})
}
