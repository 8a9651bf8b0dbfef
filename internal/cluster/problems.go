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

// trouble is what keeps replicas from sharing their polls. NATS is tried again and again, so each
// thing that is wrong is told once, until it was well between. A connection proves nothing of the
// tables: what is wrong with them is told again only after they have answered.
type trouble struct {
	logger *slog.Logger

	mu   sync.Mutex
	told map[string]bool // of the connection
	deny map[string]bool // of the tables: what the user may not do, or the account does not have
}

func newTrouble(logger *slog.Logger) *trouble {
	return &trouble{logger: logger, told: map[string]bool{}, deny: map[string]bool{}}
}

// note tells of what is wrong with the connection.
func (t *trouble) note(err error) {
	if what := diagnosis(err); t.first(t.told, what) {
		t.warn(what)
	}
}

func (t *trouble) warn(what string) { t.logger.Warn("each replica polls for itself: " + what) }

// gone tells that the connection is lost.
func (t *trouble) gone() {
	t.first(t.told, unreachable)
	t.logger.Warn("NATS is gone: each replica polls for itself")
}

// connected tells that there is a connection. The library says so some time after calls over it
// have begun, so that their failures may be known by then.
func (t *trouble) connected(text string) {
	t.mu.Lock()
	clear(t.told)
	denied := len(t.deny) > 0
	t.mu.Unlock()
	if !denied {
		text += ": polls are shared"
	}
	t.logger.Info(text)
}

// answered takes in what a table has answered. An error that says nothing of a setting is left out:
// NATS may be about to go, and then its connection says so.
func (t *trouble) answered(err error) {
	if err == nil {
		t.shared()
		return
	}
	if what := diagnosis(err); what != unreachable && t.first(t.deny, what) {
		t.warn(what)
	}
}

// shared notes that the tables answer.
func (t *trouble) shared() {
	t.mu.Lock()
	denied := len(t.deny) > 0
	clear(t.deny)
	t.mu.Unlock()
	if denied {
		t.logger.Info("NATS answers: polls are shared")
	}
}

// first reports whether something is told for the first time.
func (t *trouble) first(told map[string]bool, what string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	again := told[what]
	told[what] = true
	return !again
}

// diagnosis says what is wrong and what cures it, and no word of an address, which may hold a
// password.
func diagnosis(err error) string {
	var untrusted *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var stranger x509.UnknownAuthorityError
	var setting settingError
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		return "NATS refuses the login. Check EASEL_NATS_CREDS_FILE, EASEL_NATS_NKEY_FILE or the password in EASEL_NATS_URL: " +
			"the user may have expired, be revoked, or belong to an account that this NATS does not know. The file is read again at each try"
	case errors.Is(err, nats.ErrPermissionViolation):
		return "NATS does not allow this user what it needs: docs/replicas.md lists the subjects"
	case errors.As(err, &untrusted), errors.As(err, &invalid), errors.As(err, &stranger):
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
