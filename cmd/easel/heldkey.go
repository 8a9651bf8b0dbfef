package main

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/reload"
)

// openHeldKey reads the shared API key. It is reloaded when its file changes. accept can reject a changed key, and may be nil.
func openHeldKey(path string, logger *slog.Logger, accept func(catalog.Secret) error) (*reload.Value[catalog.Secret], error) {
	first := true
	value, err := reload.Open("upstream key", logger, func(contents ...[]byte) (catalog.Secret, error) {
		key, err := parseKey(contents...)
		if err == nil && !first && accept != nil {
			err = accept(key)
		}
		first = false
		return key, err
	}, path)
	if err == nil {
		value.Describe = func(before, after catalog.Secret) []any {
			return []any{"before", fingerprintOf(catalog.Forwarded(before).APIKeySum()), "after", fingerprintOf(catalog.Forwarded(after).APIKeySum())}
		}
	}
	return value, err
}

// fingerprintOf returns the part of the digest of an API key that identifies it in logs and in the audit.
func fingerprintOf(apiKeySum string) string { return "sha256:" + apiKeySum[:16] }

// parseKey parses an API key, without the line break that editors and echo add to a file. Its errors never contain the content
// of the file.
func parseKey(contents ...[]byte) (key catalog.Secret, err error) {
	text := strings.TrimSuffix(strings.TrimSuffix(string(contents[0]), "\n"), "\r")
	switch {
	case text == "":
		return key, errors.New("is empty")
	case len(text) > 4096:
		return key, errors.New("is too long for an API key")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return key, errors.New("contains spaces, line breaks or other characters that are invalid in an API key")
	}
	return catalog.NewSecret(text), nil
}
