package main

import (
	"log/slog"
	"strings"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/cluster"
	"github.com/easel-grpc/easel/internal/telemetry"
	"github.com/easel-grpc/easel/internal/watch"
)

// natsFlags say where the other replicas are found.
type natsFlags struct {
	NATSURL       string `name:"nats-url" group:"nats" env:"EASEL_NATS_URL" placeholder:"URL" help:"NATS with JetStream, over which replicas share polling: nats://HOST:PORT or tls://HOST:PORT, several with commas. Without it replicas share it over a ledger in PostgreSQL, else each polls for itself."`
	NATSCredsFile string `name:"nats-creds-file" group:"nats" env:"EASEL_NATS_CREDS_FILE" placeholder:"FILE" help:"Credentials (JWT and seed) to log in with."`
	NATSNKeyFile  string `name:"nats-nkey-file" group:"nats" env:"EASEL_NATS_NKEY_FILE" placeholder:"FILE" help:"Seed to log in with."`
	NATSCAFile    string `name:"nats-ca-file" group:"nats" env:"EASEL_NATS_CA_FILE" placeholder:"FILE" help:"Authorities of the certificate of NATS, instead of the system's."`
	NATSCertFile  string `name:"nats-cert-file" group:"nats" env:"EASEL_NATS_CERT_FILE" placeholder:"FILE" help:"Certificate to show to NATS; read again when it is connected again."`
	NATSKeyFile   string `name:"nats-key-file" group:"nats" env:"EASEL_NATS_KEY_FILE" placeholder:"FILE" help:"Key of that certificate."`
}

func (f *natsFlags) config() cluster.Config {
	return cluster.Config{
		URL:   f.NATSURL,
		Login: cluster.Login{CredsFile: f.NATSCredsFile, NKeyFile: f.NATSNKeyFile},
		TLS:   cluster.TLS{CAFile: f.NATSCAFile, CertFile: f.NATSCertFile, KeyFile: f.NATSKeyFile},
	}
}

func (f *natsFlags) natsFaults(list *cli.FaultList) {
	if f.NATSURL == "" {
		list.Require(*f == natsFlags{}, "EASEL_NATS_CREDS_FILE, EASEL_NATS_NKEY_FILE, EASEL_NATS_CA_FILE, EASEL_NATS_CERT_FILE and EASEL_NATS_KEY_FILE need EASEL_NATS_URL")
		return
	}
	if err := f.config().Check(); err != nil {
		list.Add(err.Error())
	}
}

// peering is how polls are shared with other replicas.
type peering struct {
	peers watch.Peers               // nil where there are none
	stats func() telemetry.Replicas // likewise
	end   func()
}

// peering joins the other replicas. They are left by end.
func (c *serveCmd) peering(logger *slog.Logger) (peering, error) {
	if c.NATSURL == "" {
		return peering{end: func() {}}, nil
	}
	cfg := c.config()
	cfg.Upstream, cfg.Logger = strings.TrimRight(c.UpstreamURL, "/"), logger
	replicas, err := cluster.New(cfg)
	if err != nil {
		return peering{}, &cli.Problem{Exit: cli.ExitUsage, Text: err.Error(), Err: err}
	}
	return peering{replicas, func() telemetry.Replicas { return telemetry.Replicas(replicas.Stats()) }, replicas.Close}, nil
}
