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

// seal is what those who have a credential share: the name under which they meet, and the
// lock on what they say there.
type seal struct {
	key  catalog.Secret // that it was made from
	name string
	lock cipher.AEAD
}

// newSeal derives a seal from a key. The salt keeps catalogs apart.
func newSeal(key catalog.Secret, salt string) (*seal, error) {
	if key.Reveal() == "" {
		return nil, errors.New("there is no key")
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
	lock, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &seal{key, hex.EncodeToString(name), lock}, nil
}

// close seals a text for one place: a subject, or a key of a bucket. Elsewhere it can't be
// opened.
func (s *seal) close(place string, text []byte) []byte {
	return s.lock.Seal(nil, nil, text, []byte(place)) //nolint:gosec // the lock draws its nonces itself and takes none
}

func (s *seal) open(place string, sealed []byte) ([]byte, error) {
	return s.lock.Open(nil, nil, sealed, []byte(place))
}
