package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const unreachable = "NATS can't be reached"

// problems logs the reasons why replicas do not share their polls. NATS is tried again and again, so each
// problem is logged once, until it was solved in between. A connection proves nothing of the
// tables: their problems are logged again only after they have answered.
type problems struct {
	logger *slog.Logger

	mu       sync.Mutex
	reported map[string]bool // of the connection
	denied   map[string]bool // of the tables: a missing permission of the user, or no JetStream
}

func newProblems(logger *slog.Logger) *problems {
	return &problems{logger: logger, reported: map[string]bool{}, denied: map[string]bool{}}
}

// report logs a problem of the connection.
func (p *problems) report(err error) {
	if what := diagnosis(err); p.isNew(p.reported, what) {
		p.warn(what)
	}
}

func (p *problems) warn(what string) { p.logger.Warn("each replica polls for itself: " + what) }

// disconnected logs that the connection is lost.
func (p *problems) disconnected() {
	p.isNew(p.reported, unreachable)
	p.logger.Warn("NATS is gone: each replica polls for itself")
}

// connected logs that there is a connection. The library says so some time after calls over it
// have begun, so that their failures may be known by then.
func (p *problems) connected(text string) {
	p.mu.Lock()
	clear(p.reported)
	denied := len(p.denied) > 0
	p.mu.Unlock()
	if !denied {
		text += ": polls are shared"
	}
	p.logger.Info(text)
}

// tableAnswered takes in the answer of a table. An error that names no setting is left out: NATS may be
// about to go, and then its connection reports it.
func (p *problems) tableAnswered(err error) {
	if err == nil {
		p.solved()
		return
	}
	if what := diagnosis(err); what != unreachable && p.isNew(p.denied, what) {
		p.warn(what)
	}
}

// solved notes that the tables answer.
func (p *problems) solved() {
	p.mu.Lock()
	denied := len(p.denied) > 0
	clear(p.denied)
	p.mu.Unlock()
	if denied {
		p.logger.Info("NATS answers: polls are shared")
	}
}

// isNew reports whether a problem is not reported yet, and notes that it is.
func (p *problems) isNew(reported map[string]bool, what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := reported[what]
	reported[what] = true
	return !again
}

// diagnosis names the problem and its fix. It leaves out addresses, which may hold a password.
func diagnosis(err error) string {
	var untrusted *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var unknownCA x509.UnknownAuthorityError
	var setting settingError
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		return "NATS refuses the login. Check EASEL_NATS_CREDS_FILE, EASEL_NATS_NKEY_FILE or the password in EASEL_NATS_URL: " +
			"the user may have expired, be revoked, or belong to an account that this NATS does not know. The file is read again at each try"
	case errors.Is(err, nats.ErrPermissionViolation):
		return "NATS does not allow this user what it needs: docs/replicas.md lists the subjects"
	case errors.As(err, &untrusted), errors.As(err, &invalid), errors.As(err, &unknownCA):
		return "the certificate of NATS is not trusted. Check EASEL_NATS_CA_FILE"
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return "of NATS and this replica one wants TLS and the other does not. Check EASEL_NATS_URL and EASEL_NATS_CA_FILE"
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return "NATS is there, and JetStream is not enabled for this account. Enable it"
	case errors.As(err, &setting):
		return setting.Error()
	}
	return unreachable
}
