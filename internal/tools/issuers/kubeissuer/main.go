// Kubeissuer creates service account tokens with the Kubernetes API server's own code for signing, claims and key sets.
// Its argument is the name of the issuer. It reads lines from standard input, and responds to each with one line:
//
//	keys N                                 the key set with all key pairs from the Nth to the latest, on one line
//	token N NAMESPACE NAME AUDIENCE TIME   a token, signed with the Nth key pair, with the lifetime TIME
//
// It creates the Nth key pair when a line first uses it: an RSA key pair if N is odd, and an ECDSA key pair otherwise.
package main

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "kubeissuer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	issuer := issuer{name: os.Args[1], keys: map[int]crypto.Signer{}}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := issuer.answer(ctx, lines.Text())
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return nil
}

// issuer is a token issuer with its name and its key pairs.
type issuer struct {
	name string
	keys map[int]crypto.Signer
}

func (i *issuer) answer(ctx context.Context, line string) (string, error) {
	var number int
	var namespace, name, audience, lasts string
	if n, _ := fmt.Sscanf(line, "token %d %s %s %s %s", &number, &namespace, &name, &audience, &lasts); n == 5 {
		life, err := time.ParseDuration(lasts)
		if err != nil {
			return "", err
		}
		return i.token(ctx, number, namespace, name, audience, life)
	}
	if n, _ := fmt.Sscanf(line, "keys %d", &number); n == 1 {
		return i.keySet(number)
	}
	return "", fmt.Errorf("unknown line %q", line)
}

// key returns the key pair with the given number. It creates the key pair if it does not exist.
func (i *issuer) key(number int) (crypto.Signer, error) {
	if i.keys[number] != nil {
		return i.keys[number], nil
	}
	var err error
	if number%2 == 1 {
		i.keys[number], err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		i.keys[number], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	return i.keys[number], err
}

// token returns a token like the one that a kubelet requests for a pod with a service account. The token is signed with
// the key pair of the given number, and expires after lifetime.
func (i *issuer) token(ctx context.Context, number int, namespace, name, audience string, lifetime time.Duration) (string, error) {
	key, err := i.key(number)
	if err != nil {
		return "", err
	}
	generator, err := serviceaccount.JWTTokenGenerator(i.name, key)
	if err != nil {
		return "", err
	}
	account := core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("11111111-2222-3333-4444-555555555555")}}
	pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-0", UID: types.UID("66666666-7777-8888-9999-000000000000")}}
	public, private, err := serviceaccount.Claims(account, pod, nil, nil, nil, nil, int64(lifetime.Seconds()), 0, []string{audience}, nil)
	if err != nil {
		return "", err
	}
	return generator.GenerateToken(ctx, public, private)
}

// keySet returns the key set that the API server would serve at /openid/v1/jwks. It contains the public keys from the
// given number to the latest.
func (i *issuer) keySet(number int) (string, error) {
	var public []any
	for n := number; ; n++ {
		if n > number && i.keys[n] == nil {
			break
		}
		key, err := i.key(n)
		if err != nil {
			return "", err
		}
		public = append(public, key.Public())
	}
	keys, err := serviceaccount.StaticPublicKeysGetter(public)
	if err != nil {
		return "", err
	}
	provider, err := serviceaccount.NewOpenIDMetadataProvider(i.name, i.name+"/openid/v1/jwks", "https://localhost", keys)
	if err != nil {
		return "", err
	}
	text, _ := provider.GetKeysetJSON()
	return string(text), nil
}
