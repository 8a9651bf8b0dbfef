package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// NewToken creates a random service token. Its prefix allows secret scanners to detect it.
func NewToken() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	return "easel_" + base64.RawURLEncoding.EncodeToString(random)
}

// Hash returns the SHA-256 of a token in the form that a callers file contains.
func Hash(token string) string {
	sum := hashOf(token)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func hashOf(token string) tokenHash { return sha256.Sum256([]byte(token)) }
