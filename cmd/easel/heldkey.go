package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// heldKey is the catalog's key that this server holds for all its callers. It is read
// from a file, and read again when it is used and the last look is a second old; while
// the file can't be read, the old key stays.
type heldKey struct {
	path   string
	logger *slog.Logger

	mu      sync.Mutex
	key     catalog.Secret
	checked time.Time
	broken  bool // the last look failed, and that has been logged
}

func openHeldKey(path string, logger *slog.Logger) (*heldKey, error) {
	key, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	return &heldKey{path: path, logger: logger, key: key, checked: time.Now()}, nil
}

// newest gives the key to send now.
func (h *heldKey) newest() catalog.Secret {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.checked) < time.Second {
		return h.key
	}
	h.checked = time.Now()
	key, err := readKeyFile(h.path)
	switch {
	case err != nil && !h.broken:
		h.logger.Error("the upstream key can't be read; the old key stays", "error", err)
	case err == nil && !key.Equal(h.key):
		h.logger.Info("the upstream key has changed")
	}
	h.broken = err != nil
	if err == nil {
		h.key = key
	}
	return h.key
}

// readKeyFile reads a key. Editors and echo end a file with a line break, which is no
// part of the key. Its errors never repeat what is in the file.
func readKeyFile(path string) (catalog.Secret, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return catalog.Secret{}, err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	switch {
	case text == "":
		err = errors.New("is empty")
	case len(text) > 4096:
		err = errors.New("is too long for a key")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		err = errors.New("holds spaces, line breaks or other characters that no key has")
	}
	if err != nil {
		return catalog.Secret{}, fmt.Errorf("%s %w", path, err)
	}
	return catalog.NewSecret(text), nil
}
