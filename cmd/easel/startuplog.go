package main

import (
	"cmp"
	"log/slog"
	"net/url"
	"strings"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/crossorigin"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/telemetry"
)

// logInForce logs the configuration in one line, without secrets. It also logs warnings about unsafe settings. knownCallers
// contains the callers in the callers file, or is nil if there is no such file.
func (c *serveCmd) logInForce(logger *slog.Logger, knownCallers *auth.Callers) {
	upstream, _ := url.Parse(c.UpstreamURL) // the URL was validated; only its host is logged, because the URL may contain a password
	logger.Info("server configured",
		"version", thisBuild().Version,
		"upstream", upstream.Host,
		"api_key", map[bool]string{true: "shared", false: "forwarded"}[c.holdsKey()],
		"callers", c.callersInForce(),
		"ledger", ledger.Kind(c.LedgerURL),
		"durable", ledger.IsDurable(c.LedgerURL),
		"ledger_means", ledger.Meaning(c.LedgerURL),
		"tls", c.TLSCertFile != "",
		"client_certificates", map[bool]string{true: cmp.Or(c.TLSClientAuth, "require"), false: "none"}[c.TLSClientCAFile != ""],
		"telemetry", cmp.Or(strings.Join(telemetry.Exported(), ","), "none"),
	)
	if !c.holdsKey() && c.beyondLoopbackInClear() {
		logger.Warn("API keys accepted without TLS", "effect", "callers on other machines send their API keys unencrypted, unless a proxy encrypts the connection", "hint", "set EASEL_TLS_CERT_FILE and EASEL_TLS_KEY_FILE")
	}
	if c.AllowAnonymous && len(c.HTTPAllowedHosts) == 0 && !crossorigin.IsLoopback(c.HTTPAddr) { // a call needs neither a credential nor a known host name
		logger.Warn("any host name accepted", "effect", "web pages may place orders by DNS rebinding", "hint", "set EASEL_HTTP_ALLOWED_HOSTS to the host names of this server")
	}
	if knownCallers != nil && c.devKey == "" { // no warning for 'easel dev', which spends only test money
		if names := unlimitedCallers(knownCallers.List()); names != "" {
			logger.Warn("callers without budget", "callers", names, "hint", budgetHint)
		}
	}
}

func (c *serveCmd) holdsKey() bool { return c.UpstreamKeyFile != "" || c.devKey != "" }

// callersInForce returns the method by which callers authenticate, as it is named in the log.
func (c *serveCmd) callersInForce() string {
	switch {
	case !c.holdsKey():
		return "own_api_keys"
	case c.AllowAnonymous:
		return "anonymous"
	case c.CallersFile != "":
		return "listed"
	case c.TLSClientCAFile != "":
		return "certified"
	}
	return "loopback"
}
