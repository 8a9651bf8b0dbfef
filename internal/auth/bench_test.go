package auth

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// BenchmarkVerify compares a token that is known, one that is new and good, and one whose signature is wrong: that is what
// somebody without a token can make the door do.
func BenchmarkVerify(b *testing.B) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.EdDSA} {
		key, forger := newSigning(b, "one", algorithm), newSigning(b, "one", algorithm)
		v, _ := startVerifier(b, issuerWith(b, keySet(b, key)))
		good, forged := key.sign(b, claims(nil), nil), forger.sign(b, claims(nil), nil)
		b.Run(fmt.Sprint(algorithm, " known"), func(b *testing.B) {
			for b.Loop() {
				if _, err := v.Verify(good, anybody); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint(algorithm, " forged"), func(b *testing.B) {
			for b.Loop() {
				if _, err := v.Verify(forged, anybody); err == nil {
					b.Fatal("it is let in")
				}
			}
		})
	}
	v, _ := startVerifier(b)
	b.Run("no token", func(b *testing.B) {
		for b.Loop() {
			_, _ = v.Verify("easel_"+time.Now().String(), anybody)
		}
	})
}
