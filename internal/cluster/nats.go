package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	reconnectWait = time.Second
	writeTimeout  = 2 * time.Second // a server that takes nothing is gone
	pingEvery     = 2 * time.Second // so is one that does not answer two of these
)

// natsNetwork is the network over NATS.
type natsNetwork struct {
	conn        *nats.Conn
	leaseBucket bucket
	stateBucket bucket
}

// dial begins to connect to NATS.
func dial(cfg Config) (network, error) {
	if err := checkAddress(cfg.URL); err != nil {
		return nil, err
	}
	p := newProblems(cfg.Logger)
	options, err := cfg.options(p)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(cfg.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", redact(err))
	}
	stream, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsNetwork{
		conn:        conn,
		leaseBucket: bucket{problems: p, stream: stream, name: "easel_leases", ttl: leaseTTL},
		stateBucket: bucket{problems: p, stream: stream, name: "easel_states", ttl: statesTTL},
	}, nil
}

// checkAddress refuses an address that can never be reached. It does not repeat the address, which may
// hold a password.
func checkAddress(list string) error {
	for address := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return wrong("EASEL_NATS_URL", "an address is none of the form nats://HOST:PORT or tls://HOST:PORT")
		}
	}
	return nil
}

// redact keeps the address out of an error: it may hold a password.
func redact(err error) error {
	if errors.Is(err, nats.ErrNoServers) {
		return nats.ErrNoServers
	}
	return wrong("EASEL_NATS_URL", "the address can't be used with this login and these TLS files")
}

// options gives the options of the connection. It buffers no message while it is away, as messages get
// stale.
func (cfg Config) options(p *problems) ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name("easel"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait/2, reconnectWait/2), nats.ReconnectBufSize(-1),
		nats.FlusherTimeout(writeTimeout), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2), nats.NoEcho(),
		nats.IgnoreAuthErrorAbort(), // a login that is refused today may be let in tomorrow
		nats.ConnectHandler(func(*nats.Conn) { p.connected("connected to NATS") }),
		nats.ReconnectHandler(func(*nats.Conn) { p.connected("connected to NATS again") }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { p.report(err) }),
		nats.DisconnectErrHandler(func(conn *nats.Conn, _ error) {
			if !conn.IsClosed() {
				p.disconnected()
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			p.logger.Debug("NATS", "error", err.Error())
			p.tableAnswered(err)
		}),
	}
	secure, err := cfg.TLS.config()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options = append(options, nats.Secure(secure))
	}
	login, err := cfg.Login.options(p)
	return append(options, login...), err
}

func (n *natsNetwork) up() bool { return n.conn.IsConnected() }

func (n *natsNetwork) publish(subject string, data []byte) {
	_ = n.conn.Publish(subject, data) // a lost message is repeated
}

func (n *natsNetwork) subscribe(subject string, handle func([]byte)) (stop func(), err error) {
	sub, err := n.conn.Subscribe(subject, func(m *nats.Msg) { handle(m.Data) })
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil // it ends with the connection at the latest
}

func (n *natsNetwork) leases() table { return &n.leaseBucket }
func (n *natsNetwork) states() table { return &n.stateBucket }
func (n *natsNetwork) close()        { n.conn.Close() }

// bucket is a table in JetStream. Its age limit is the stream's, which counts from each write: the limit
// of a single value is lost with the next write.
type bucket struct {
	problems *problems
	stream   jetstream.JetStream
	name     string
	ttl      time.Duration

	mu    sync.Mutex
	found jetstream.KeyValue // nil: not found yet, or lost
	made  int64
}

// store gives the bucket, and makes it where it is missing. It uses an existing one as it is, so that an
// operator may choose its replicas and storage.
func (b *bucket) store(ctx context.Context) (jetstream.KeyValue, int64, error) {
	b.mu.Lock()
	kv, made := b.found, b.made
	b.mu.Unlock()
	if kv != nil {
		return kv, made, nil
	}
	kv, made, err := b.find(ctx)
	b.problems.tableAnswered(err)
	if err != nil {
		return nil, 0, err
	}
	b.mu.Lock()
	b.found, b.made = kv, made
	b.mu.Unlock()
	return kv, made, nil
}

func (b *bucket) find(ctx context.Context) (kv jetstream.KeyValue, made int64, err error) {
	kv, err = b.stream.KeyValue(ctx, b.name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = b.stream.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: b.name, TTL: b.ttl, Storage: jetstream.MemoryStorage, Description: "Easel replicas: see its docs/replicas.md",
		})
	}
	if err != nil {
		return nil, 0, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, 0, err
	}
	if status.TTL() != b.ttl {
		return nil, 0, settingError(fmt.Sprintf("values of the bucket %s of NATS live for %v, and not for %v. Delete it: a replica makes it anew", b.name, status.TTL(), b.ttl))
	}
	if detail, ok := status.(*jetstream.KeyValueBucketStatus); ok {
		made = detail.StreamInfo().Created.UnixNano()
	}
	return kv, made, nil
}

// forget has the bucket looked for anew: it may be gone.
func (b *bucket) forget() {
	b.mu.Lock()
	b.found = nil
	b.mu.Unlock()
}

// translate turns an error of JetStream into ours. After an error that says nothing of a value, the
// bucket is looked for anew.
func (b *bucket) translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return errConflict
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return errNotFound
	}
	b.forget()
	return err
}

func (b *bucket) put(ctx context.Context, key string, data []byte, revision uint64) (uint64, error) {
	if revision == 0 {
		b.forget() // revisions of a bucket that was made anew begin anew: the epoch has to be the right one
	}
	kv, _, err := b.store(ctx)
	if err != nil {
		return 0, err
	}
	if revision == 0 {
		revision, err = kv.Create(ctx, key, data)
	} else {
		revision, err = kv.Update(ctx, key, data, revision)
	}
	return revision, b.translate(err)
}

func (b *bucket) get(ctx context.Context, key string) (value, error) {
	kv, made, err := b.store(ctx)
	if err != nil {
		return value{}, err
	}
	entry, err := kv.Get(ctx, key)
	if err != nil {
		return value{}, b.translate(err)
	}
	return value{entry.Value(), entry.Revision(), made, entry.Created()}, nil
}

func (b *bucket) remove(ctx context.Context, key string, revision uint64) error {
	kv, _, err := b.store(ctx)
	if err != nil {
		return err
	}
	return b.translate(kv.Delete(ctx, key, jetstream.LastRevision(revision)))
}

var _ network = (*natsNetwork)(nil)
