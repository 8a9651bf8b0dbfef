package siege

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const largest = 1310720 // bytes of a message

// invoke makes a unary call with a message that is encoded already, and drops its answer.
func invoke(ctx context.Context, conn *grpc.ClientConn, key, method string, body []byte) error {
	return conn.Invoke(as(ctx, key), method, encoded(body), encoded(nil), grpc.ForceCodec(rawCodec{}))
}

// field is a field of a message with bytes in it.
func field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func TestAttackByMessagesOfManyElements(t *testing.T) { // D1
	zeros := make([]byte, largest-100)
	many := bytes.Repeat(field(1, []byte("x")), (largest-100)/3)
	for name, attack := range map[string]struct {
		method string
		body   []byte
	}{
		"states of a filter":     {easelv1.GenerationService_ListGenerations_FullMethodName, field(3, field(2, zeros))},
		"dimensions of a report": {easelv1.AccountService_ListUsage_FullMethodName, field(3, zeros)},
		"ids of a watch":         {easelv1.GenerationService_WatchGenerations_FullMethodName, many},
		"labels of an order":     {easelv1.GenerationService_CreateGeneration_FullMethodName, bytes.Repeat(field(6, field(1, []byte("x"))), (largest-100)/5)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, siegeConfig{})
			conn := s.dialFrom("127.0.0.1")
			s.beside(assault{
				workers: 4, least: 4, memory: 20<<20 + collected, cpu: 50 * time.Millisecond,
				one: func(ctx context.Context, _ int) error {
					return invoke(ctx, conn, "made-up-key", attack.method, attack.body)
				},
			})
		})
	}
}

func TestAttackByInputsThatAreSlowToCheck(t *testing.T) { // D2
	name := strings.Repeat("n", 500_000)
	nulls := bytes.Repeat(field(1, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 0)), 125_000)
	list := field(1, append(field(1, []byte(name)), field(2, field(6, nulls))...))
	text := `{"` + name + `":[` + strings.TrimSuffix(strings.Repeat("null,", 100_000), ",") + `]}`
	for form, body := range map[string][]byte{
		"a Struct": append(field(1, []byte("studio/haiku")), field(2, list)...),
		"JSON":     mustMarshal(t, &easelv1.QuoteGenerationRequest{ModelId: "studio/haiku", InputsJson: text}),
	} {
		t.Run(form, func(t *testing.T) {
			s := newSiege(t, siegeConfig{before: quotesAtOnce})
			conn := s.dialFrom("127.0.0.1")
			s.beside(assault{
				workers: 4, least: 4, memory: 60 << 20, cpu: 50 * time.Millisecond,
				one: func(ctx context.Context, _ int) error {
					return invoke(ctx, conn, s.attacker, easelv1.GenerationService_QuoteGeneration_FullMethodName, body)
				},
			})
		})
	}
}

// quotesAtOnce lets the catalog quote without a look at the inputs: what it costs is not looked at here.
func quotesAtOnce(catalog http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/quote") {
			catalog.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"priceCents":2}`)
	})
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// unread opens calls whose answers nobody reads, and leaves them so.
func (s *siege) unread(ctx context.Context, credential, path string, body []byte, conns, each int) (through int64) {
	for range conns {
		f := s.frames(credential, 0)
		f.until(ctx)
		for n := range each {
			if id := uint32(2*n + 1); f.call(id, path) != nil || f.send(id, message(body), true) != nil {
				break
			}
			through++
		}
	}
	return through
}

func TestAttackByAnswersThatNobodyReads(t *testing.T) { // D3
	for name, attack := range map[string]struct {
		credential bool
		path       string
		body       []byte
	}{
		"of reflection": {
			false, grpc_reflection_v1.ServerReflection_ServerReflectionInfo_FullMethodName,
			mustMarshal(t, &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "easel.v1.GenerationService"}}),
		},
		"of models": {true, easelv1.ModelService_ListModels_FullMethodName, nil},
		"of lists":  {true, easelv1.GenerationService_ListGenerations_FullMethodName, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, siegeConfig{before: longModels})
			key := map[bool]string{true: s.attacker}[attack.credential]
			s.beside(assault{
				least: 100, memory: 100 << 20,
				hold: func(ctx context.Context) int64 {
					return s.unread(ctx, key, attack.path, attack.body, sizeOf(20, 4), 500)
				},
			})
			if inFull() { // else it is too long
				s.closesUnread(key, attack.path, attack.body)
			}
		})
	}
}

// closesUnread fails the test where a connection stays whose answers nobody reads.
func (s *siege) closesUnread(credential, path string, body []byte) {
	s.t.Helper()
	f, began := s.frames(credential, 0), time.Now()
	defer f.conn.Close()
	if err := errors.Join(f.call(1, path), f.send(1, message(body), true)); err != nil {
		s.t.Fatal(err)
	}
	const patience, late = 30 * time.Second, 15 * time.Second
	if closed := f.ends(patience + late); !closed || time.Since(began) < patience/2 {
		s.t.Errorf("after %v the server has closed a connection that takes nothing: %v", time.Since(began), closed)
	}
}

// longModels gives the catalog models with long descriptions.
func longModels(catalog http.Handler) http.Handler {
	return spliced(catalog, "/models", `{"id":"studio/long","name":"Long","description":"`+strings.Repeat("long ", 50_000)+`"}`)
}

func TestAttackByHealthWatchesAndSilentConnections(t *testing.T) { // D4
	s := newSiege(t, siegeConfig{})
	silent := sizeOf(11_000, 500) // more than there are places for
	watch := grpc_health_v1.Health_Watch_FullMethodName
	s.beside(assault{
		least: 500, memory: printedMemory(t, "the connections to the gRPC or to the HTTP address"),
		hold: func(ctx context.Context) int64 {
			through := s.unread(ctx, "", watch, nil, sizeOf(40, 4), 1250)
			for n := range silent {
				from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP([]string{"127.0.0.1", "127.0.0.5"}[n%2])}}
				conn, err := from.DialContext(ctx, "tcp", s.grpc)
				if err != nil {
					break
				}
				context.AfterFunc(ctx, func() { _ = conn.Close() })
				through++
			}
			s.isOpenToOthers(ctx)
			return through
		},
	})
}

// isOpenToOthers fails the test where an honest caller can't connect, watch or call, or the admin port does not answer.
func (s *siege) isOpenToOthers(ctx context.Context) {
	s.t.Helper()
	conn := s.dialFrom("127.0.0.3")
	ctx, cancel := context.WithTimeout(as(ctx, s.neighbour), 10*time.Second)
	defer cancel()
	if _, err := easelv1.NewAccountServiceClient(conn).GetAccount(ctx, &easelv1.GetAccountRequest{}); err != nil {
		s.t.Errorf("a new connection: %v", err)
	}
	watch, err := easelv1.NewGenerationServiceClient(conn).WatchGenerations(ctx, &easelv1.WatchGenerationsRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		s.t.Errorf("a new watch: %v", err)
	}
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		s.t.Errorf("a health check: %v", err)
	}
	answer, err := http.Get("http://" + s.admin + "/healthz") //nolint:noctx // it answers always and soon
	if err != nil {
		s.t.Fatalf("liveness: %v", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		s.t.Errorf("liveness: %s", answer.Status)
	}
}

func TestAttackByMessagesInTinyFrames(t *testing.T) { // D11
	s := newSiege(t, siegeConfig{})
	const streams = 6
	sent := atomic.Int64{}
	s.beside(assault{
		least: 1, memory: 20<<20 + collected,
		hold: func(ctx context.Context) int64 {
			var all sync.WaitGroup
			for range streams {
				f := s.frames("made-up-key", 1<<20)
				f.until(ctx)
				all.Go(func() {
					if f.call(1, easelv1.GenerationService_CreateGeneration_FullMethodName) != nil {
						return
					}
					whole := message(make([]byte, largest-10))
					for _, one := range whole[:sizeOf(len(whole)-1, 50_000)] {
						if f.send(1, []byte{one}, false) != nil {
							return
						}
						sent.Add(1)
					}
				})
			}
			waited := make(chan struct{})
			go func() { all.Wait(); close(waited) }()
			select {
			case <-waited:
			case <-time.After(sizeOf(30*time.Second, 5*time.Second)): // a server that counts takes no more
			}
			return sent.Load()
		},
	})
}

func TestAttackByOneMadeUpAPIKeyOnTheProofsOfOthers(t *testing.T) { // D12
	slow := func(catalog http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(50 * time.Millisecond) // as a catalog takes that is somewhere else
			catalog.ServeHTTP(w, r)
		})
	}
	s := newSiege(t, siegeConfig{before: slow})
	keys, conns := make([]string, 8), make([]*grpc.ClientConn, 4)
	for n := range keys {
		keys[n] = s.newKey()
	}
	for n := range conns {
		conns[n] = s.dialFrom("127.0.0.1")
	}
	honest := func(key string) {
		ctx, cancel := context.WithTimeout(as(s.t.Context(), key), 10*time.Second)
		defer cancel()
		if _, err := easelv1.NewAccountServiceClient(s.near).GetAccount(ctx, &easelv1.GetAccountRequest{}); err != nil {
			s.t.Errorf("an honest new API key: %v", err)
		}
	}
	rejected := atomic.Int64{}
	s.beside(assault{
		workers: sizeOf(1500, 200), least: 200, memory: 100 << 20,
		one: func(ctx context.Context, worker int) error {
			if worker < len(keys) {
				honest(keys[worker])
			}
			err := invoke(ctx, conns[worker%len(conns)], "made-up-key", easelv1.AccountService_GetAccount_FullMethodName, nil)
			if status.Code(err) == codes.Unauthenticated {
				rejected.Add(1)
			}
			time.Sleep(100 * time.Millisecond) // else the clients take the processors
			return err
		},
	})
	if rejected.Load() == 0 {
		t.Error("no call was told that its API key is rejected")
	}
}

func TestAttackByQueriesAndThePagesScript(t *testing.T) { // D13
	var query strings.Builder
	for n := 0; query.Len() < 30_000; n++ {
		fmt.Fprintf(&query, "%x&", n)
	}
	for name, attack := range map[string]struct{ path, credential string }{
		"a query without a credential":  {"/v1/generations?" + query.String(), ""},
		"a query under a made-up key":   {"/v1/generations?" + query.String(), "Bearer made-up-key"},
		"the script, as it is unpacked": {"/page/scalar.js", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, siegeConfig{})
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true}}
			s.beside(assault{
				workers: 4, least: 50, memory: 50 << 20, cpu: 5 * time.Millisecond,
				one: func(ctx context.Context, _ int) error { return s.get(ctx, client, attack.path, attack.credential) },
			})
		})
	}
}

// get makes a request over REST, and drops its answer.
func (s *siege) get(ctx context.Context, client *http.Client, path, credential string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.rest+path, nil)
	if err != nil {
		return err
	}
	if credential != "" {
		r.Header.Set("Authorization", credential)
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
