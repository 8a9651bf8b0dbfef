package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// NewToken makes a service token that nobody can guess. Its prefix lets tools that look for secrets find it.
func NewToken() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	return "easel_" + base64.RawURLEncoding.EncodeToString(random)
}

// Hash is how a token stands in a callers file.
func Hash(token string) string {
	sum := hashOf(token)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func hashOf(token string) tokenHash { return sha256.Sum256([]byte(token)) }
