package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

// watchUntilLeft handles a watch: it sends one update, and then blocks until the caller cancels the
// watch.
func watchUntilLeft(_ *easelv1.WatchGenerationRequest, stream servertest.WatchStream) error {
	if err := stream.Send(servertest.UpdateEvent("g", "e1")); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// openWatch opens a watch and waits for its first message.
func openWatch(ctx context.Context, client easelv1.GenerationServiceClient) error {
	stream, err := client.WatchGeneration(servertest.WithKey(ctx), &easelv1.WatchGenerationRequest{GenerationId: "g"})
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

func wantOverQuota(t *testing.T, err error) {
	t.Helper()
	st := servertest.WantError(t, err, codes.ResourceExhausted, "STREAM_QUOTA_EXCEEDED")
	delay := service.Detail[*errdetails.RetryInfo](st).GetRetryDelay().AsDuration()
	violations := service.Detail[*errdetails.QuotaFailure](st).GetViolations()
	if delay < time.Second || delay > 2*time.Second || len(violations) != 1 || violations[0].GetDescription() == "" {
		t.Errorf("the rejection has the details %v", st.Details())
	}
}

func TestStreamAboveQuotaIsRejectedImmediately(t *testing.T) {
	for name, row := range map[string]struct {
		limits Limits
		open   int
		want   func(*testing.T, error)
	}{
		"default limit of a caller": {Limits{}, Limits{}.callerStreams(), wantOverQuota},
		"limit of the server": {Limits{Streams: 2}, 2, func(t *testing.T, err error) {
			servertest.WantError(t, err, codes.ResourceExhausted, "OVERLOADED")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				studio := servertest.NewStudio()
				studio.Watch = watchUntilLeft
				s := serve(t, studio, func(c *Config) { c.Limits = row.limits })
				ctx, cancel := context.WithCancel(t.Context())
				for n := range row.open { // opens all streams on one connection
					if err := openWatch(ctx, s.Generations()); err != nil {
						t.Fatalf("stream %d: %v", n+1, err)
					}
				}
				began := time.Now()
				row.want(t, openWatch(ctx, s.Generations()))
				answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g:watch", ""))
				if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") != "1" {
					t.Errorf("over REST the response is %s with Retry-After %q", answer.Status, answer.Header.Get("Retry-After"))
				}
				row.want(t, servertest.RESTStatus(t, body).Err())
				if _, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"}); err != nil {
					t.Errorf("with the maximum number of streams, a unary call returned %v", err)
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("the responses took %v, want no delay", took)
				}
				cancel()
				synctest.Wait()
				if err := openWatch(t.Context(), s.Generations()); err != nil {
					t.Errorf("after the streams ended, a new stream returned %v", err)
				}
			})
		})
	}
}

func TestOneHTTPConnectionCarriesAllStreamsOfACaller(t *testing.T) {
	files := newTLSFiles(t, "server")
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = watchUntilLeft
		s := serve(t, studio, func(c *Config) { c.TLS = files.TLS })
		transport := &http.Transport{
			DialContext:       servertest.PipeDialer(s.HTTPPipe),
			TLSClientConfig:   files.clientConfig(t, nil),
			ForceAttemptHTTP2: true,
			HTTP2:             &http.HTTP2Config{StrictMaxConcurrentRequests: true}, // uses one connection for all requests, as browsers do
		}
		defer transport.CloseIdleConnections()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ask := func() *http.Response {
			r := servertest.Request(t, http.MethodGet, "/v1/generations/g:watch", "").WithContext(ctx)
			r.URL.Scheme = "https"
			answer, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		limit := Limits{}.callerStreams()
		for n := range limit {
			if answer := ask(); answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
				t.Fatalf("stream %d returned %s over %s", n+1, answer.Status, answer.Proto)
			}
		}
		began := time.Now()
		answer := ask()
		if answer.StatusCode != http.StatusTooManyRequests || time.Since(began) != 0 {
			t.Errorf("a stream above the limit returned %s after %v, want 429 at once", answer.Status, time.Since(began))
		}
		answer.Body.Close()
		cancel()
		synctest.Wait()
	})
}

func TestEndedStreamsReleaseTheirQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		var end func(context.Context) error
		studio.Watch = func(_ *easelv1.WatchGenerationRequest, stream servertest.WatchStream) error {
			return end(stream.Context())
		}
		studio.OpenContent = func(ctx context.Context, _ *easelv1.DownloadGenerationRequest) (*service.Content, error) {
			return &service.Content{Info: &easelv1.ContentInfo{}, Body: io.NopCloser(servertest.Ending(func() error { return end(ctx) }))}, nil
		}
		s := serve(t, studio, func(c *Config) { c.Limits.CallerStreams = 1 })
		caller := func(ctx context.Context) {
			_, _ = s.Generations().WaitGeneration(servertest.WithKey(ctx), &easelv1.WaitGenerationRequest{GenerationId: "g"})
			_, _ = s.Generations().WatchGeneration(servertest.WithKey(ctx), &easelv1.WatchGenerationRequest{GenerationId: "g", Until: 99})
			for _, path := range []string{"/v1/generations/g:watch", "/v1/generations/g:wait", "/v1/generations/g/content"} {
				if answer, err := s.HTTP.Do(servertest.Request(t, http.MethodGet, path, "").WithContext(ctx)); err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
				synctest.Wait() // waits until the previous stream has ended
			}
			_ = openWatch(ctx, s.Generations())
		}
		for name, ends := range map[string]func(context.Context) error{
			"OK":                    func(context.Context) error { return nil },
			"an error":              func(context.Context) error { return errors.New("broken") },
			"a panic":               func(context.Context) error { panic("broken") },
			"the caller's deadline": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			"a slow handler":        func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Minute); return nil },
			"a closed connection":   nil,
		} {
			end = ends
			if ends == nil {
				conn := servertest.Dial(t, s.GRPCPipe)
				end = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
				stream, err := easelv1.NewGenerationServiceClient(conn).WatchGeneration(servertest.WithKey(t.Context()), &easelv1.WatchGenerationRequest{GenerationId: "g"})
				if err != nil {
					t.Fatal(err)
				}
				_ = stream
				synctest.Wait()
				conn.Close()
			} else {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				caller(ctx)
				cancel()
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if q := s.chain.streams; q.total != 0 || len(q.used) != 0 {
				t.Errorf("after %s, %d streams are still counted, by caller: %v", name, q.total, q.used)
			}
		}
	})
}

func TestHealthWatchesAreLimitedPerConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = watchUntilLeft
		s := serve(t, studio, func(c *Config) { c.Limits.CallerStreams = connProbes }) // allows a caller to open connProbes streams
		synctest.Wait()                                                                // waits until the server is serving, because a health watch that starts earlier ends at once
		ctx, cancel := context.WithCancel(t.Context())
		health := grpc_health_v1.NewHealthClient(s.GRPC)
		watch := func() error {
			stream, err := health.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}
		for range connProbes {
			if err := watch(); err != nil {
				t.Fatal(err)
			}
		}
		wantOverQuota(t, watch())
		if _, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Errorf("a health check in addition to the maximum number of watches: %v", err)
		}
		release, err := s.chain.probes.acquire("another connection", 1)
		if err != nil {
			t.Fatal(err)
		}
		release()
		if n := s.chain.streams.inUse(); n != 0 {
			t.Errorf("%d health watches are counted as streams of callers", n)
		}
		cancel()
		synctest.Wait()
		if n := s.chain.probes.inUse(); n != 0 {
			t.Errorf("after the watches ended, %d probes are still counted", n)
		}
	})
}

func TestCallAboveConcurrencyLimitIsRejectedImmediately(t *testing.T) {
	for name, limits := range map[string]Limits{
		"limit of a caller":   {CallerCalls: 2, Calls: 100},
		"limit of the server": {CallerCalls: 100, Calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				studio, over := servertest.NewStudio(), make(chan struct{})
				studio.Get = func(context.Context, *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
					<-over
					return &easelv1.GetGenerationResponse{}, nil
				}
				s := serve(t, studio, func(c *Config) { c.Limits = limits })
				for range 2 {
					go func() {
						_, _ = s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"})
					}()
				}
				synctest.Wait()
				if n := s.chain.calls.inUse(); n != 2 {
					t.Fatalf("%d calls are in progress, want 2", n)
				}
				began := time.Now()
				_, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"})
				st := servertest.WantError(t, err, codes.ResourceExhausted, "OVERLOADED")
				if service.Detail[*errdetails.RetryInfo](st).GetRetryDelay().AsDuration() != time.Second || time.Since(began) != 0 {
					t.Errorf("after %v: %v", time.Since(began), st)
				}
				answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g", ""))
				if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") != "1" {
					t.Errorf("over REST: %s, Retry-After %q", answer.Status, answer.Header.Get("Retry-After"))
				}
				close(over)
				synctest.Wait()
				if len(s.chain.calls.used) != 0 || s.chain.calls.inUse() != 0 {
					t.Errorf("after the calls ended, %v are still counted", s.chain.calls.used)
				}
			})
		})
	}
}

func TestQuotaIsCountedPerCallerAndInTotal(t *testing.T) {
	c := newCounts("calls", 2, 3, easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED, "wait")
	leave := func(caller string, n int, want easelv1.ErrorReason) func() {
		t.Helper()
		release, err := c.acquire(caller, n)
		if got := service.Reason(service.Status(err)); got != want {
			t.Errorf("acquiring %d for caller %s returned %v", n, caller, err)
		}
		return release
	}
	leave("a", 3, easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED)
	two := leave("a", 2, 0)
	leave("a", 1, easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED)
	leave("b", 1, 0)
	leave("c", 1, easelv1.ErrorReason_OVERLOADED)
	two()
	leave("c", 2, 0)
}
