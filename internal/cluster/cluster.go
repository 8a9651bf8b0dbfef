// Package cluster lets replicas share the polls of a credential, over NATS.
//
// It hides how they agree. For each credential that somebody watches with, one replica holds a
// lease in JetStream KV and polls for all: the leader. The followers send it their interests, and
// repeat them every few seconds; it publishes the states that it finds. No message is needed:
// one that is lost, repeated, late or forged costs polls, and never a state. Where NATS is
// not there, each replica polls for itself, at its share of the rate.
//
// Messages of a credential are sealed with a secret that is derived from its API key, and their subjects
// carry only a fingerprint that is derived in the same way. A reader of NATS without the API key learns
// how many credentials there are, and when they are busy.
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

// Config says where the other replicas are.
type Config struct {
	URL      string       // of NATS: one address or several, separated by commas; required
	Upstream string       // base address of the catalog: replicas before different ones share nothing
	TLS      TLS          // of the connection to NATS
	Login    Login        // to NATS
	Logger   *slog.Logger // nil = discard
}

// Check reports settings that can't work, without connecting. The error names the setting.
func (c Config) Check() error {
	if err := checkAddress(c.URL); err != nil {
		return err
	}
	_, err := c.options(newProblems(c.Logger))
	return err
}

// TLS names the files of a TLS connection; an address that begins with tls:// needs none.
type TLS struct {
	CAFile            string // authorities of the server; "": the system's
	CertFile, KeyFile string // of this client; "": none
}

// Login names the file of this process's credentials. At most one is set.
type Login struct {
	CredsFile string // of a decentralized account: JWT and seed; read again for each connection
	NKeyFile  string // a seed
}

// Stats counts the messages and leases of a cluster since its start.
type Stats struct {
	Connected bool  // to NATS
	Leading   int64 // credentials that this replica polls for the others now
	Fenced    int64 // messages dropped because the lease had passed to another replica
	Refused   int64 // messages dropped because they were forged, repeated or unreadable
	Acquired  int64 // leases that were taken
}

// Cluster is the connection to the other replicas. It is the watch.Peers of a hub.
type Cluster struct {
	net     network
	salt    string
	logger  *slog.Logger
	history history

	leading, fenced, refused, acquired atomic.Int64
}

// New begins to connect, and does not wait: until NATS is there, each replica polls for itself. It fails
// only on settings that can't work.
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

// Close closes the connection. The hub must be closed before.
func (c *Cluster) Close() { c.net.close() }

// Stats gives the counts of the cluster.
func (c *Cluster) Stats() Stats {
	return Stats{Connected: c.net.up(), Leading: c.leading.Load(), Fenced: c.fenced.Load(), Refused: c.refused.Load(), Acquired: c.acquired.Load()}
}

// Share shares the polls of a credential until ctx ends. It joins the others anew when the API key of a
// held credential was rotated.
func (c *Cluster) Share(ctx context.Context, cred catalog.Credential, peering *watch.Peering) {
	for size := 0; ctx.Err() == nil; {
		g, err := c.join(cred, peering, size)
		if err != nil {
			c.logger.Warn("a credential is polled alone", "error", err)
			peering.SetRole(groupSize{Live: 1}.assign(watch.Alone, time.Time{}))
			select {
			case <-ctx.Done():
			case <-time.After(joinRetry):
			}
			continue
		}
		g.run(ctx)
		size = g.sizeBefore
	}
}

// join joins the replicas that share a credential. sizeBefore is how many they were under its last API
// key; 0 where there was none.
func (c *Cluster) join(cred catalog.Credential, peering *watch.Peering, sizeBefore int) (*group, error) {
	seal, err := newSeal(cred.APIKey(), c.salt)
	if err != nil {
		return nil, err
	}
	g := &group{
		cluster: c, net: c.net, cred: cred, peering: peering, seal: seal, me: newName(),
		inbox: make(chan sealedMessage, inboxSize), unacknowledged: map[uint64][]watch.Interest{}, members: membership{},
		sizeBefore: max(sizeBefore, c.history.size(seal.name, time.Now())),
	}
	g.handover.table, g.handover.seal = c.net.states(), seal
	for _, subject := range []string{g.toAll(), g.toLeader()} {
		stop, err := c.net.subscribe(subject, func(data []byte) {
			select {
			case g.inbox <- sealedMessage{subject, data}:
			default: // lost, as any message may be
			}
		})
		if err != nil {
			g.close()
			return nil, err
		}
		g.stop = append(g.stop, stop)
	}
	return g, nil
}

// newName gives a random name, which no other replica has.
func newName() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}
