package main

import (
	"cmp"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/telemetry"
)

// tellInForce logs what this server runs with, in one line, and no secret. It warns of what is less safe than it may be.
// known may be nil.
func (c *serveCmd) tellInForce(logger *slog.Logger, told *events.Teams, known *service.Callers) {
	logger.Info("in force",
		"version", thisBuild().Version,
		"upstream", hostOf(c.UpstreamURL),
		"api_key", map[bool]string{true: "held", false: "forwarded"}[c.holdsKey()], // whose goes to the catalog
		"callers", c.callersInForce(),
		"ledger", ledger.Kind(c.LedgerURL),
		"durable", ledger.IsDurable(c.LedgerURL),
		"ledger_means", ledger.Meaning(c.LedgerURL),
		"tls", c.TLSCertFile != "",
		"client_certificates", map[bool]string{true: cmp.Or(c.TLSClientAuth, "require"), false: "none"}[c.TLSClientCAFile != ""], // whether clients must show one
		"telemetry", cmp.Or(strings.Join(telemetry.Exported(), ","), "none"),
	)
	if !c.holdsKey() && c.beyondLoopbackInClear() {
		logger.Warn("API keys of callers travel in the clear beyond this machine, where nothing in front of it encrypts: EASEL_TLS_CERT_FILE and EASEL_TLS_KEY_FILE encrypt")
	}
	if known != nil && c.heldKey == "" { // easel dev has play money
		if text := withoutLimit(known.List()); text != "" {
			logger.Warn(text)
		}
	}
	for _, file := range c.secretFiles(told, known) {
		if file.path != "" && othersMayRead(file.path) {
			logger.Warn("others on this machine may read a file with a secret: chmod o-r", "setting", file.setting, "file", file.path)
		}
	}
}

func (c *serveCmd) holdsKey() bool { return c.UpstreamKeyFile != "" || c.heldKey != "" }

// callersInForce says who may call.
func (c *serveCmd) callersInForce() string {
	switch {
	case !c.holdsKey():
		return "own_api_keys"
	case c.AllowAnonymous:
		return "anybody"
	case c.CallersFile != "":
		return "listed"
	case c.TLSClientCAFile != "":
		return "certified"
	}
	return "loopback"
}

// hostOf is the host of an address, which may hold a password.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// secretFile is a file with a secret, and the setting that names it.
type secretFile struct{ setting, path string }

// secretFiles are those of the settings, of the teams that are told of events, and of issuers. known may be nil.
func (c *serveCmd) secretFiles(told *events.Teams, known *service.Callers) []secretFile {
	files := []secretFile{
		{"EASEL_UPSTREAM_KEY_FILE", c.UpstreamKeyFile},
		{"EASEL_CALLERS_FILE", c.CallersFile},
		{"EASEL_TLS_KEY_FILE", c.TLSKeyFile},
	}
	if file, ok := strings.CutPrefix(c.LedgerURL, "sqlite:"); ok {
		files = append(files, secretFile{"EASEL_LEDGER_URL", file})
	}
	if strings.HasPrefix(ledger.Kind(c.LedgerURL), "postgres") {
		files = append(files, secretFile{"PGPASSFILE", os.Getenv("PGPASSFILE")})
	}
	for _, name := range slices.Sorted(maps.Keys(told.Known())) {
		if team, ok := told.Get(name); ok {
			files = append(files, secretFile{"secret_file of the team " + name, team.SecretFile})
		}
	}
	if known != nil {
		for _, issuer := range known.List().Issuers() {
			files = append(files, secretFile{"token_file of the issuer " + issuer.Name, issuer.TokenFile})
		}
	}
	return files
}

// othersMayRead reports whether every user of this machine may read a file: the file and all directories above it
// allow that. Windows says nothing of it here.
func othersMayRead(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil || runtime.GOOS == "windows" || !allows(path, 0o004) {
		return false
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if !allows(dir, 0o001) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// allows reports whether a file has a bit of permission.
func allows(path string, bit os.FileMode) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&bit != 0
}
