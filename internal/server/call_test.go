package server

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

// openCall opens a call that sends nothing.
func (s *site) openCall(t *testing.T, ctx context.Context, method string) grpc.ClientStream {
	t.Helper()
	stream, err := s.GRPC.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func TestAMessageThatDoesNotComeIsGivenUp(t *testing.T) { // L9 A3
	for _, method := range []string{
		easelv1.GenerationService_CreateGeneration_FullMethodName,
		easelv1.GenerationService_WatchGeneration_FullMethodName,
		grpc_health_v1.Health_Check_FullMethodName,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, servertest.NewStudio())
				began := time.Now()
				err := s.openCall(t, servertest.WithKey(t.Context()), method).RecvMsg(&easelv1.CreateGenerationResponse{})
				servertest.WantError(t, err, codes.DeadlineExceeded, "REQUEST_BODY_TIMEOUT")
				if took := time.Since(began); took != requestTimeout {
					t.Errorf("it was given up after %v", took)
				}
				if s.admission.streams.inUse() != 0 || s.admission.calls.inUse() != 0 || s.admission.bytes.total != 0 {
					t.Error("it took a place")
				}
				if lines := s.Lines(t, "call"); len(lines) != 1 || lines[0]["code"] != "DeadlineExceeded" {
					t.Errorf("logged %v", lines)
				}
			})
		})
	}
}

func TestAStreamTakesItsPlaceWhenItsMessageHasCome(t *testing.T) { // A3
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = watchUntilLeft
		s := serve(t, studio, func(c *Config) { c.Limits.CallerStreams = 1 })
		ctx, cancel := context.WithCancel(t.Context())
		stream := s.openCall(t, servertest.WithKey(ctx), easelv1.GenerationService_WatchGeneration_FullMethodName)
		synctest.Wait()
		if n := s.admission.streams.inUse(); n != 0 {
			t.Errorf("%d streams are counted before the message", n)
		}
		if err := stream.SendMsg(&easelv1.WatchGenerationRequest{GenerationId: "g"}); err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := s.admission.streams.inUse(); n != 1 {
			t.Errorf("%d streams are counted after it", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestACallWithoutACredentialIsDeniedAtItsHeaders(t *testing.T) { // A1 A2
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		began := time.Now()
		for _, method := range []string{
			easelv1.GenerationService_CreateGeneration_FullMethodName, easelv1.GenerationService_WatchGeneration_FullMethodName,
		} {
			err := s.openCall(t, t.Context(), method).RecvMsg(&easelv1.CreateGenerationResponse{})
			servertest.WantError(t, err, codes.Unauthenticated, "CREDENTIAL_MISSING")
		}
		answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodPost, "/v1/generations", "no JSON", "Authorization: "))
		if answer.StatusCode != http.StatusUnauthorized || answer.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("over REST it is answered %s", answer.Status)
		}
		st := servertest.WantError(t, servertest.RESTStatus(t, body).Err(), codes.Unauthenticated, "CREDENTIAL_MISSING")
		if got := service.Detail[*errdetails.ErrorInfo](st).GetMetadata()["order_outcome"]; got != "not_placed_by_this_call" {
			t.Errorf("of the order is known: %q", got)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the denials took %v", took)
		}
		if lines := s.Lines(t, "call"); len(lines) != 3 {
			t.Errorf("logged %v", lines)
		}
	})
}

func TestLargeRequestsKeepToTheBudget(t *testing.T) { // A1 A2
	synctest.Test(t, func(t *testing.T) {
		studio, answer := servertest.NewStudio(), make(chan struct{})
		studio.Create = func(context.Context, *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
			<-answer
			return &easelv1.CreateGenerationResponse{}, nil
		}
		const most = 128 << 10 // a body grows by doubling
		s := serve(t, studio, func(c *Config) { c.Limits.RequestBytes = 2 * most * unverifiedPart })
		inputs := `"` + strings.Repeat("x", 100<<10) + `"`
		order := func(ctx context.Context) error {
			_, err := s.Generations().CreateGeneration(servertest.WithKey(ctx), &easelv1.CreateGenerationRequest{ModelId: "m", IdempotencyKey: "k", InputsJson: inputs})
			return err
		}
		body := `{"modelId":"m","idempotencyKey":"k","inputsJson":` + strconv.Quote(inputs) + `}`
		for range 2 {
			go func() { _ = order(t.Context()) }()
			synctest.Wait()
		}
		servertest.WantError(t, order(t.Context()), codes.ResourceExhausted, "OVERLOADED")
		s.HTTP.Transport.(*http.Transport).DisableKeepAlives = false // what is refused is read to its end then
		refused, text := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodPost, "/v1/generations", body))
		if servertest.WantError(t, servertest.RESTStatus(t, text).Err(), codes.ResourceExhausted, "OVERLOADED"); refused.Header.Get("Retry-After") == "" {
			t.Errorf("over REST it is answered %s, with %v", refused.Status, refused.Header)
		}
		close(answer)
		synctest.Wait()
		if s.admission.bytes.total != 0 || len(s.admission.bytes.held) != 0 {
			t.Errorf("%d bytes are held", s.admission.bytes.total)
		}
		if answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodPost, "/v1/generations", body)); answer.StatusCode != http.StatusOK {
			t.Errorf("with room again it is answered %s", answer.Status)
		}
	})
}

func TestAMessageThatStaysAwayTakesItsShareOfTheBudget(t *testing.T) { // A1
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio(), func(c *Config) { c.Limits.RequestBytes = unverifiedPart * 32 << 10 })
		transport := &http.Transport{DialContext: servertest.PipeDialer(s.GRPCPipe), Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		send := func(bytes int) (status string, took time.Duration) {
			body, writer := io.Pipe()
			defer writer.Close()
			r := servertest.Request(t, http.MethodPost, easelv1.GenerationService_GetGeneration_FullMethodName, "",
				"Content-Type: application/grpc", "Te: trailers")
			r.Body = body
			go func() {
				_, _ = writer.Write([]byte{0, 0, 1, 0, 0}) // the head of a message of 64 KiB
				_, _ = writer.Write(make([]byte, bytes))
			}()
			began := time.Now()
			answer, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			_, _ = io.Copy(io.Discard, answer.Body)
			return answer.Header.Get("Grpc-Status") + answer.Trailer.Get("Grpc-Status"), time.Since(began)
		}
		if status, took := send(16 << 10); status != "4" || took != requestTimeout {
			t.Errorf("what has room ends with status %s after %v", status, took)
		}
		if status, took := send(48 << 10); status != "8" || took != receiveCheck {
			t.Errorf("what has none ends with status %s after %v", status, took)
		}
		if s.admission.bytes.total != 0 {
			t.Errorf("%d bytes are held", s.admission.bytes.total)
		}
	})
}

func TestTheBudgetOfBytesIsSharedByOwner(t *testing.T) {
	b := newRequestBytes(800)
	take := func(owner string, n int) string {
		h := b.of(owner)
		return service.Detail[*errdetails.ErrorInfo](service.Status(h.set(n))).GetReason()
	}
	for n, step := range []struct {
		owner string
		bytes int
		want  string
	}{
		{"a", 401, "OVERLOADED"},
		{"a", 400, ""},
		{"a", 1, "OVERLOADED"},
		{"", 101, "OVERLOADED"},
		{"", 100, ""},
		{"", 1, "OVERLOADED"},
		{"b", 301, "OVERLOADED"},
		{"b", 300, ""},
		{"c", 26, "OVERLOADED"},
		{"c", 25, ""},
		{"c", 1, "OVERLOADED"}, // a little is for everybody
	} {
		if got := take(step.owner, step.bytes); got != step.want {
			t.Errorf("step %d, %d of %q: %q, want %q", n+1, step.bytes, step.owner, got, step.want)
		}
	}
	if b.add("a", -400); b.total != 425 || len(b.held) != 3 {
		t.Errorf("%d are held, of %v", b.total, b.held)
	}
}
