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

// dial begins to connect.
func dial(cfg Config) (network, error) {
	if err := checkAddress(cfg.URL); err != nil {
		return nil, err
	}
	is := newTrouble(cfg.Logger)
	options, err := cfg.options(is)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(cfg.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", scrub(err))
	}
	stream, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsNetwork{
		conn:        conn,
		leaseBucket: bucket{is: is, stream: stream, name: "easel_leases", ttl: leaseTTL},
		stateBucket: bucket{is: is, stream: stream, name: "easel_states", ttl: statesTTL},
	}, nil
}

// checkAddress refuses what can never be reached. It does not repeat the address, which may hold
// a password.
func checkAddress(list string) error {
	for address := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return wrong("EASEL_NATS_URL", "an address is none of the form nats://HOST:PORT or tls://HOST:PORT")
		}
	}
	return nil
}

// scrub keeps the address out of an error: it may hold a password.
func scrub(err error) error {
	if errors.Is(err, nats.ErrNoServers) {
		return nats.ErrNoServers
	}
	return wrong("EASEL_NATS_URL", "the address can't be used with this login and these TLS files")
}

// options are those of the connection. What can't be sent at once is not kept for later: it
// would be stale.
func (cfg Config) options(is *trouble) ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name("easel"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait/2, reconnectWait/2), nats.ReconnectBufSize(-1),
		nats.FlusherTimeout(writeTimeout), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2), nats.NoEcho(),
		nats.IgnoreAuthErrorAbort(), // a login that is refused today may be let in tomorrow
		nats.ConnectHandler(func(*nats.Conn) { is.connected("connected to NATS") }),
		nats.ReconnectHandler(func(*nats.Conn) { is.connected("connected to NATS again") }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { is.note(err) }),
		nats.DisconnectErrHandler(func(conn *nats.Conn, _ error) {
			if !conn.IsClosed() {
				is.gone()
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			is.logger.Debug("NATS", "error", err.Error())
			is.answered(err)
		}),
	}
	secure, err := cfg.TLS.config()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options = append(options, nats.Secure(secure))
	}
	login, err := cfg.Login.options(is)
	return append(options, login...), err
}

func (n *natsNetwork) up() bool { return n.conn.IsConnected() }

func (n *natsNetwork) publish(subject string, data []byte) {
	_ = n.conn.Publish(subject, data) // what is lost is told again
}

func (n *natsNetwork) subscribe(subject string, take func([]byte)) (stop func(), err error) {
	sub, err := n.conn.Subscribe(subject, func(m *nats.Msg) { take(m.Data) })
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil // it ends with the connection at the latest
}

func (n *natsNetwork) leases() table { return &n.leaseBucket }
func (n *natsNetwork) states() table { return &n.stateBucket }
func (n *natsNetwork) close()        { n.conn.Close() }

// bucket is a table in JetStream. Its age limit is the stream's: that counts from each write,
// where the limit of a single value is lost with the next one.
type bucket struct {
	is     *trouble
	stream jetstream.JetStream
	name   string
	ttl    time.Duration

	mu   sync.Mutex
	open jetstream.KeyValue // nil: not found yet, or lost
	made int64
}

// keys gives the bucket, and makes it where it is missing. One that is there already is used as
// it is, so that an operator may choose its replicas and storage.
func (b *bucket) keys(ctx context.Context) (jetstream.KeyValue, int64, error) {
	b.mu.Lock()
	open, made := b.open, b.made
	b.mu.Unlock()
	if open != nil {
		return open, made, nil
	}
	open, made, err := b.find(ctx)
	b.is.answered(err)
	if err != nil {
		return nil, 0, err
	}
	b.mu.Lock()
	b.open, b.made = open, made
	b.mu.Unlock()
	return open, made, nil
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

// lost notes that the bucket may be gone.
func (b *bucket) lost() {
	b.mu.Lock()
	b.open = nil
	b.mu.Unlock()
}

// verdict turns an error of JetStream into ours. After one that says nothing of a value, the
// bucket is looked for anew.
func (b *bucket) verdict(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return errTaken
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return errNone
	}
	b.lost()
	return err
}

func (b *bucket) put(ctx context.Context, key string, data []byte, revision uint64) (uint64, error) {
	if revision == 0 {
		b.lost() // revisions of a bucket that was made anew begin anew: the epoch has to be the right one
	}
	kv, _, err := b.keys(ctx)
	if err != nil {
		return 0, err
	}
	if revision == 0 {
		revision, err = kv.Create(ctx, key, data)
	} else {
		revision, err = kv.Update(ctx, key, data, revision)
	}
	return revision, b.verdict(err)
}

func (b *bucket) get(ctx context.Context, key string) (value, error) {
	kv, made, err := b.keys(ctx)
	if err != nil {
		return value{}, err
	}
	entry, err := kv.Get(ctx, key)
	if err != nil {
		return value{}, b.verdict(err)
	}
	return value{entry.Value(), entry.Revision(), made, entry.Created()}, nil
}

func (b *bucket) remove(ctx context.Context, key string, revision uint64) error {
	kv, _, err := b.keys(ctx)
	if err != nil {
		return err
	}
	return b.verdict(kv.Delete(ctx, key, jetstream.LastRevision(revision)))
}

var _ network = (*natsNetwork)(nil)
