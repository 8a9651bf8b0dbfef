package watch

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"

	"github.com/easel-grpc/easel/internal/catalog"
)

// seal makes records of the book unreadable for all who do not have the API key: they have inputs and texts in them, which
// a caller that forwards its API key does not want on a disk.
type seal struct {
	aead cipher.AEAD // nil: nothing can be sealed or opened
}

// newSeal derives a seal from an API key. Each key gives one: the functions fail for other lengths alone.
func newSeal(key catalog.Secret) seal {
	secret, err := hkdf.Key(sha256.New, []byte(key.Reveal()), nil, "easel shared polls 1", 32)
	if err != nil {
		return seal{}
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return seal{}
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return seal{}
	}
	return seal{aead}
}

// close seals a text for the row of a generation. It can't be opened in another row.
func (s seal) close(id string, text []byte) string {
	return base64.RawStdEncoding.EncodeToString(s.aead.Seal(nil, nil, text, []byte(id))) //nolint:gosec // the cipher draws its nonces itself and takes none
}

// errNoSeal means that a text is none, or that nothing can be opened.
var errNoSeal = errors.New("it can't be opened")

func (s seal) open(id, sealed string) (text []byte, err error) {
	if text, err = base64.RawStdEncoding.DecodeString(sealed); err != nil || s.aead == nil {
		return nil, errors.Join(err, errNoSeal)
	}
	return s.aead.Open(nil, nil, text, []byte(id))
}
