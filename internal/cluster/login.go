package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

const asWritten = ": it must be as `nsc generate creds` writes it"

// settingError names a setting that can't work, and says why. It holds nothing of a file's contents.
type settingError string

func (e settingError) Error() string { return string(e) }

func wrong(setting, why string) error { return settingError(setting + ": " + why) }

// options are those of the login; none without one.
func (l Login) options(p *problems) ([]nats.Option, error) {
	switch {
	case l.CredsFile != "" && l.NKeyFile != "":
		return nil, settingError("EASEL_NATS_CREDS_FILE and EASEL_NATS_NKEY_FILE are both set, and one of them is enough")
	case l.CredsFile != "":
		if _, _, err := l.creds(); err != nil {
			return nil, err
		}
		return []nats.Option{nats.UserJWT(l.callbacks(p))}, nil
	case l.NKeyFile != "":
		nkey, err := nats.NkeyOptionFromSeed(l.NKeyFile)
		if err != nil {
			return nil, wrong("EASEL_NATS_NKEY_FILE", l.NKeyFile+" has no seed of a user that can be read")
		}
		return []nats.Option{nkey}, nil
	}
	return nil, nil
}

// creds reads the file of credentials. It is read for each connection, so that it may be renewed.
func (l Login) creds() (token string, user nkeys.KeyPair, err error) {
	text, err := os.ReadFile(l.CredsFile)
	if err != nil {
		return "", nil, wrong("EASEL_NATS_CREDS_FILE", err.Error())
	}
	token, err = nkeys.ParseDecoratedJWT(text)
	if err != nil || strings.Count(token, ".") != 2 || strings.ContainsAny(token, " \t\r\n") {
		return "", nil, wrong("EASEL_NATS_CREDS_FILE", l.CredsFile+" has no JWT of a user"+asWritten)
	}
	user, err = nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return "", nil, wrong("EASEL_NATS_CREDS_FILE", l.CredsFile+" has no seed of a user beside its JWT"+asWritten)
	}
	return token, user, nil
}

// callbacks are the functions by which a connection logs in.
func (l Login) callbacks(p *problems) (token nats.UserJWTHandler, sign nats.SignatureHandler) {
	read := func() (string, nkeys.KeyPair, error) {
		token, user, err := l.creds()
		if err != nil {
			p.report(err) // the connection keeps it to itself
		}
		return token, user, err
	}
	token = func() (string, error) {
		token, user, err := read()
		if err == nil {
			user.Wipe()
		}
		return token, err
	}
	sign = func(nonce []byte) ([]byte, error) {
		_, user, err := read()
		if err != nil {
			return nil, err
		}
		defer user.Wipe()
		return user.Sign(nonce)
	}
	return token, sign
}

// config reads the files once; nil where there are none.
func (t TLS) config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, wrong("EASEL_NATS_CA_FILE", err.Error())
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, wrong("EASEL_NATS_CA_FILE", t.CAFile+" has no certificate")
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			return nil, wrong("EASEL_NATS_CERT_FILE and EASEL_NATS_KEY_FILE", err.Error())
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile) // again: it may have been renewed
			return &pair, err
		}
	}
	return config, nil
}
