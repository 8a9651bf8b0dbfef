// Package cluster lets replicas share the polls of a credential, over NATS.
//
// It hides how they agree. For each credential that somebody watches with, one replica holds a
// lease in JetStream KV and polls for all: the leader. The others tell it what they watch, and
// tell it again every few seconds; it tells them what it finds. Nothing that is said is needed:
// a message that is lost, repeated, late or forged costs polls, and never a state. Where NATS is
// not there, each replica polls for itself, at its share of the rate.
//
// Messages of a credential are sealed with a key that is derived from it, and their subjects carry
// only a fingerprint that is derived in the same way: who does not have the credential learns how
// many there are, and when they are busy.
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// Config says where the other replicas are found.
type Config struct {
	URL      string       // of NATS: one address or several, separated by commas; required
	Upstream string       // base address of the catalog: replicas before different ones share nothing
	TLS      TLS          // of the connection to NATS
	Login    Login        // to NATS
	Logger   *slog.Logger // nil = discard
}

// Check reports what can't be meant, without connecting. The error names the setting.
func (c Config) Check() error {
	if err := checkAddress(c.URL); err != nil {
		return err
	}
	_, err := c.options(newTrouble(c.Logger))
	return err
}

// TLS names the files of a TLS connection; an address that begins with tls:// needs none.
type TLS struct {
	CAFile            string // authorities of the server; "": the system's
	CertFile, KeyFile string // of this client; "": none
}

// Login names the file that says who we are. At most one is set.
type Login struct {
	CredsFile string // of a decentralized account: JWT and seed; read again for each connection
	NKeyFile  string // a seed
}

// Stats counts what a cluster has done since its start, and says what it has now.
type Stats struct {
	Connected bool  // to NATS
	Leading   int64 // credentials that this replica polls for the others now
	Fenced    int64 // messages dropped because a lease had passed to somebody else
	Refused   int64 // messages dropped because they were forged, repeated or unreadable
	Takings   int64 // leases that were taken
}

// Cluster is the connection to the other replicas. It is the watch.Peers of a hub.
type Cluster struct {
	net     network
	salt    string
	logger  *slog.Logger
	history history

	leading, fenced, refused, takings atomic.Int64
}

// New begins to connect, and does not wait for it: without NATS every credential is polled
// alone until it is there. It fails only where the settings can't be meant.
func New(cfg Config) (*Cluster, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	net, err := dial(cfg)
	if err != nil {
		return nil, err
	}
	return &Cluster{net: net, salt: cfg.Upstream, logger: cfg.Logger}, nil
}

// Close ends the connection. The hub must be closed before.
func (c *Cluster) Close() { c.net.close() }

// Stats tells what the cluster has done.
func (c *Cluster) Stats() Stats {
	return Stats{Connected: c.net.up(), Leading: c.leading.Load(), Fenced: c.fenced.Load(), Refused: c.refused.Load(), Takings: c.takings.Load()}
}

// Share plays a part in polling for a credential until ctx ends. It joins the others anew
// when the key of a held credential was rotated.
func (c *Cluster) Share(ctx context.Context, cred catalog.Credential, part *watch.Peering) {
	for before := 0; ctx.Err() == nil; {
		g, err := c.join(cred, part, before)
		if err != nil {
			c.logger.Warn("a credential is polled alone", "error", err)
			part.SetRole(groupSize{Live: 1}.assign(watch.Alone, time.Time{}))
			select {
			case <-ctx.Done():
			case <-time.After(retry):
			}
			continue
		}
		g.run(ctx)
		before = g.sizeBefore
	}
}

// newName is a name that nobody else has.
func newName() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}
