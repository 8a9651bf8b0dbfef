package cluster

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/easel-grpc/easel/internal/catalog"
)

// seal is what the replicas of one credential derive from its API key: the name of their subjects, and the
// cipher of their messages.
type seal struct {
	key  catalog.Secret // the API key that it was derived from
	name string
	aead cipher.AEAD
}

// newSeal derives a seal from an API key. The salt keeps catalogs apart.
func newSeal(key catalog.Secret, salt string) (*seal, error) {
	if key.Reveal() == "" {
		return nil, errors.New("there is no API key")
	}
	prk, err := hkdf.Extract(sha256.New, []byte(key.Reveal()), []byte("easel cluster 1 "+salt))
	if err != nil {
		return nil, err
	}
	name, err := hkdf.Expand(sha256.New, prk, "name", 16)
	if err != nil {
		return nil, err
	}
	secret, err := hkdf.Expand(sha256.New, prk, "lock", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &seal{key, hex.EncodeToString(name), aead}, nil
}

// close seals a text for one place: a subject, or a key of a bucket. It can't be opened elsewhere.
func (s *seal) close(place string, text []byte) []byte {
	return s.aead.Seal(nil, nil, text, []byte(place)) //nolint:gosec // the cipher draws its nonces itself and takes none
}

func (s *seal) open(place string, sealed []byte) ([]byte, error) {
	return s.aead.Open(nil, nil, sealed, []byte(place))
}
