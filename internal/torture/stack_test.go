//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// stack is one facade before one sandbox, each in its own process, and a caller.
type stack struct {
	ctx         context.Context //nolint:containedctx // context of calls, with the key
	catalog     *process
	facade      *process
	generations easelv1.GenerationServiceClient
	accounts    easelv1.AccountServiceClient
}

// startStack starts a stack. between receives the address of the catalog, and returns the address for the facade.
func startStack(t *testing.T, between func(catalog string) string, speed string) *stack {
	t.Helper()
	catalog, err := startCatalog(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), "--speed", speed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(catalog.kill)
	facade, err := startFacade(t.Context(), between(catalog.found[0]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(facade.kill)
	conn, err := grpc.NewClient(facade.found[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &stack{
		ctx:     metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key),
		catalog: catalog, facade: facade,
		generations: easelv1.NewGenerationServiceClient(conn), accounts: easelv1.NewAccountServiceClient(conn),
	}
}

// order places the n-th order.
func (s *stack) order(t *testing.T, n int) *easelv1.Generation {
	t.Helper()
	answer, err := s.generations.CreateGeneration(s.ctx, orderOf(n))
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetGeneration()
}

// seenMessage is one message of a watch.
type seenMessage struct {
	*easelv1.WatchGenerationResponse
	at time.Time
}

// watchLog is a watch and its messages.
type watchLog struct {
	mu       sync.Mutex
	messages []seenMessage
	err      error // io.EOF once the goal was reached
	ended    bool
}

// watch watches a generation until it is over, with a heartbeat each second.
func (s *stack) watch(t *testing.T, id string) *watchLog {
	t.Helper()
	stream, err := s.generations.WatchGeneration(s.ctx, &easelv1.WatchGenerationRequest{
		GenerationId: id, HeartbeatInterval: durationpb.New(time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &watchLog{}
	go func() {
		for {
			m, err := stream.Recv()
			w.mu.Lock()
			if err != nil {
				w.err, w.ended = err, true
				w.mu.Unlock()
				return
			}
			w.messages = append(w.messages, seenMessage{m, time.Now()})
			w.mu.Unlock()
		}
	}()
	return w
}

// seen reports whether the watch has received a message that meets a condition.
func (w *watchLog) seen(is func(seenMessage) bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.messages {
		if is(m) {
			return true
		}
	}
	return false
}

func (w *watchLog) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// goal returns nil if the watch ended with the final state of its generation, and an error otherwise.
func (w *watchLog) goal() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !errors.Is(w.err, io.EOF) {
		return w.err
	}
	last := w.messages[len(w.messages)-1].GetUpdate().GetGeneration()
	if !last.GetTerminal() {
		return fmt.Errorf("it ended with %v", last.GetState())
	}
	return nil
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(40 * time.Second)
	for !is() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-limit:
			t.Fatalf("it never came: %s", what)
		}
	}
}

// tunnel forwards bytes until it goes dark. Then it drops the bytes of existing connections, and of those
// that are opened while it is dark.
type tunnel struct {
	listener net.Listener

	mu    sync.Mutex
	dark  bool
	pipes map[*pipe]bool // those that the near side has not closed
}

// pipe is one connection through a tunnel.
type pipe struct {
	tunnel *tunnel
	dead   bool
}

func dig(t *testing.T, to string) *tunnel {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tun := &tunnel{listener: listener, pipes: map[*pipe]bool{}}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go tun.carry(near, to)
		}
	}()
	return tun
}

func (tun *tunnel) carry(near net.Conn, to string) {
	defer near.Close()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	p := &pipe{tunnel: tun}
	tun.mu.Lock()
	p.dead = tun.dark
	tun.pipes[p] = true
	tun.mu.Unlock()
	go func() { _, _ = io.Copy(vanishing{near, p}, far) }()
	_, _ = io.Copy(vanishing{far, p}, near) // until the near side closes it
	tun.mu.Lock()
	delete(tun.pipes, p)
	tun.mu.Unlock()
}

// vanishing is a writer that discards all bytes while its pipe is dead.
type vanishing struct {
	io.Writer
	p *pipe
}

func (v vanishing) Write(b []byte) (int, error) {
	v.p.tunnel.mu.Lock()
	dead := v.p.dead
	v.p.tunnel.mu.Unlock()
	if dead {
		return len(b), nil
	}
	return v.Writer.Write(b)
}

// darken starts to drop all bytes.
func (tun *tunnel) darken() {
	tun.mu.Lock()
	defer tun.mu.Unlock()
	tun.dark = true
	for p := range tun.pipes {
		p.dead = true
	}
}

// open counts the connections that the near side keeps.
func (tun *tunnel) open() int {
	tun.mu.Lock()
	defer tun.mu.Unlock()
	return len(tun.pipes)
}

// light allows new connections. Connections that went dark stay dark.
func (tun *tunnel) light() {
	tun.mu.Lock()
	defer tun.mu.Unlock()
	tun.dark = false
}

// dead counts the connections that are dark and that the near side still keeps.
func (tun *tunnel) dead() (n int) {
	tun.mu.Lock()
	defer tun.mu.Unlock()
	for p := range tun.pipes {
		if p.dead {
			n++
		}
	}
	return n
}
