package cluster

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// startNATS starts a real server in this process. Port 0 takes a free one.
func startNATS(t *testing.T, port int, change func(*server.Options)) *server.Server {
	t.Helper()
	options := &server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}
	if port == 0 {
		options.Port = server.RANDOM_PORT
	}
	if change != nil {
		change(options)
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// connect gives the network of one replica, once it is up.
func connect(t *testing.T, cfg Config) *natsNetwork {
	t.Helper()
	cfg.Logger = discard
	network, err := dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.close)
	eventually(t, "the connection", network.up)
	return network.(*natsNetwork)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for !is() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-limit:
			t.Fatalf("it never came: %s", what)
		}
	}
}

func TestALeaseOutlivesItsRenewalsAndNotItsHolder(t *testing.T) {
	t.Parallel()
	s := startNATS(t, 0, nil)
	leases := connect(t, Config{URL: s.ClientURL()}).leases()
	ctx := t.Context()
	revision, err := leases.put(ctx, "k", []byte("one"), 0)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for time.Since(began) < leaseTTL+leaseTTL/2 { // kept for longer than one life
		if revision, err = leases.put(ctx, "k", []byte("one"), revision); err != nil {
			t.Fatalf("a renewal after %v: %v", time.Since(began), err)
		}
		if _, err := leases.put(ctx, "k", []byte("two"), 0); !errors.Is(err, errConflict) {
			t.Fatalf("a second holder after %v: %v", time.Since(began), err)
		}
		pause(ctx, renewEvery/2)
	}
	left := time.Now()
	eventually(t, "the end of the lease", func() bool {
		_, err := leases.put(ctx, "k", []byte("two"), 0)
		return err == nil
	})
	if took := time.Since(left); took > leaseTTL+time.Second/2 {
		t.Errorf("it ended after %v, want %v", took, leaseTTL)
	}
	if _, err := leases.put(ctx, "k", []byte("one"), revision); !errors.Is(err, errConflict) {
		t.Errorf("the first holder renewed a lease that it had lost: %v", err)
	}
}

func TestOneOfManyGetsALeaseThatAllTakeAtOnce(t *testing.T) {
	s := startNATS(t, 0, nil)
	var wins, losses int
	var mu sync.Mutex
	var work sync.WaitGroup
	for range 8 {
		net := connect(t, Config{URL: s.ClientURL()})
		work.Go(func() {
			for {
				_, err := net.leases().put(t.Context(), "k", nil, 0)
				mu.Lock()
				switch {
				case err == nil:
					wins++
				case errors.Is(err, errConflict):
					losses++
				}
				mu.Unlock()
				if err == nil || errors.Is(err, errConflict) {
					return
				}
			}
		})
	}
	work.Wait()
	if wins != 1 || losses != 7 {
		t.Errorf("%d took it and %d did not", wins, losses)
	}
}

func TestALeaseThatWasGivenBackIsFreeAtOnce(t *testing.T) {
	s := startNATS(t, 0, nil)
	leases := connect(t, Config{URL: s.ClientURL()}).leases()
	ctx := t.Context()
	revision, err := leases.put(ctx, "k", []byte("one"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := leases.remove(ctx, "k", revision+1); !errors.Is(err, errConflict) {
		t.Errorf("somebody else's lease was given back: %v", err)
	}
	if err := leases.remove(ctx, "k", revision); err != nil {
		t.Fatal(err)
	}
	if _, err := leases.get(ctx, "k"); !errors.Is(err, errNotFound) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := leases.put(ctx, "k", []byte("two"), 0); err != nil {
		t.Error(err)
	}
}

func TestAServerThatLostItsBucketsBeginsALaterEpoch(t *testing.T) {
	first := startNATS(t, 0, nil)
	leases := connect(t, Config{URL: first.ClientURL()}).leases()
	ctx := t.Context()
	var before value
	for revision := uint64(0); before.revision < 5; revision = before.revision {
		if _, err := leases.put(ctx, "k", nil, revision); err != nil {
			t.Fatal(err)
		}
		before, _ = leases.get(ctx, "k")
	}
	port := first.Addr().(*net.TCPAddr).Port
	first.Shutdown()
	first.WaitForShutdown()
	startNATS(t, port, nil)
	eventually(t, "a lease of the new server", func() bool {
		ctx, cancel := context.WithTimeout(ctx, tableTimeout)
		defer cancel()
		_, err := leases.put(ctx, "k", nil, 0)
		return err == nil
	})
	after, err := leases.get(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	old, young := fence{before.epoch, before.revision}, fence{after.epoch, after.revision}
	if after.revision >= before.revision || !young.above(old) || old.above(young) {
		t.Errorf("%+v does not come after %+v", young, old)
	}
}

func TestABucketWhoseValuesLiveForAnotherTimeIsNotUsed(t *testing.T) {
	s := startNATS(t, 0, nil)
	net := connect(t, Config{URL: s.ClientURL()})
	_, err := net.leaseBucket.stream.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "easel_leases"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.leases().put(t.Context(), "k", nil, 0); err == nil || !strings.Contains(err.Error(), "easel_leases") {
		t.Errorf("a lease without an end: %v", err)
	}
}

func TestABucketThatAnOperatorHasMadeIsUsedAsItIs(t *testing.T) {
	s := startNATS(t, 0, nil)
	net := connect(t, Config{URL: s.ClientURL()})
	_, err := net.leaseBucket.stream.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
		Bucket: "easel_leases", TTL: leaseTTL, Storage: jetstream.FileStorage, Description: "ours",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.leases().put(t.Context(), "k", nil, 0); err != nil {
		t.Fatal(err)
	}
	stream, err := net.leaseBucket.stream.Stream(t.Context(), "KV_easel_leases")
	if err != nil || stream.CachedInfo().Config.Storage != jetstream.FileStorage {
		t.Errorf("%v, %v", stream.CachedInfo().Config, err)
	}
}

func TestTheLoginIsASeedOrCredentialsAndNothingElseGetsIn(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := pair.Seed()
	public, _ := pair.PublicKey()
	file := filepath.Join(t.TempDir(), "nkey")
	noSeed := file + "-none"
	for name, text := range map[string][]byte{file: seed, noSeed: []byte("no seed\n")} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startNATS(t, 0, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	net := connect(t, Config{URL: s.ClientURL(), Login: Login{NKeyFile: file}})
	if _, err := net.leases().put(t.Context(), "k", nil, 0); err != nil {
		t.Error(err)
	}
	unauthorized, err := dial(Config{URL: s.ClientURL(), Logger: discard})
	if err != nil {
		t.Fatal(err) // it only begins to connect
	}
	defer unauthorized.close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := unauthorized.leases().put(ctx, "k2", nil, 0); err == nil || unauthorized.up() {
		t.Error("a client without a login got in")
	}
	for name, login := range map[string]Login{
		"no file": {NKeyFile: file + "x"}, "no seed": {NKeyFile: noSeed}, "both": {NKeyFile: file, CredsFile: file},
	} {
		if _, err := New(Config{URL: s.ClientURL(), Login: login}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestAnAddressWithAPasswordIsInNoError(t *testing.T) {
	for _, url := range []string{"nats://user:secret@[::1", "nope://user:secret@x", "nats://127.0.0.1:4222,user:secret@", ""} {
		_, err := New(Config{URL: url})
		if err == nil {
			t.Fatalf("%q was taken", url)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}

func TestAReaderOfNATSWithoutTheAPIKeyLearnsNothing(t *testing.T) {
	t.Parallel()
	s := startNATS(t, 0, nil)
	spy, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Close()
	var mu sync.Mutex
	var heard []string
	if _, err := spy.Subscribe(">", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, m.Subject+" "+string(m.Data))
	}); err != nil {
		t.Fatal(err)
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}
	key := catalog.NewSecret("canary_live_0123456789")
	up := &upstream{states: map[string]catalog.State{"visible-id": queued}}
	var ends []*watching
	w := &world{t: t, up: up}
	for range 2 {
		r := w.joinNATS(Config{URL: s.ClientURL(), Upstream: "visible-upstream"})
		ends = append(ends, r.watchAs(catalog.Forwarded(key), watch.Terminal, "visible-id"))
	}
	for _, state := range []catalog.State{running, succeeded} {
		up.set(state, "visible-id")
		for _, s := range ends {
			eventually(t, state.String(), func() bool { return s.last("visible-id") == state })
		}
	}
	w.work.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(heard) < 5 {
		t.Errorf("the spy heard %d messages", len(heard))
	}
	for _, m := range heard {
		for _, secret := range []string{"canary", "0123456789", "visible", "running", "queued"} {
			if strings.Contains(m, secret) {
				t.Errorf("%q is in a message", secret)
			}
		}
	}
}

// joinNATS starts a replica that is connected to a real NATS. It goes with the test.
func (w *world) joinNATS(cfg Config) *replica {
	w.t.Helper()
	c, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	eventually(w.t, "the connection", c.net.up)
	r := &replica{w: w, cluster: c}
	if r.hub, err = watch.New(watch.Config{Upstream: r, Peers: c}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(r.hub.Close)
	return r
}
