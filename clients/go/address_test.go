//go:build go1.25

package easel_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestAddressIsNormalizedOrRejected(t *testing.T) {
	for address, want := range map[string]string{
		"":                          "localhost:50051",
		"easel:50051":               "easel:50051",
		"easel_app:50051":           "easel_app:50051",
		" easel:50051/\n":           "easel:50051",
		"HTTP://LOCALHOST:1":        "LOCALHOST:1",
		":50051":                    "!host:port",
		"[::1]:50051":               "[::1]:50051",
		"http://localhost:50051":    "localhost:50051",
		"http://127.0.0.1":          "127.0.0.1:80",
		"https://easel.example":     "easel.example:443",
		"https://easel.example/":    "easel.example:443",
		"https://[2001:db8::1]:7":   "[2001:db8::1]:7",
		"easel":                     "!has no port; add the port, for example \"easel:50051\"",
		"easel:http":                "!host:port",
		"easel:0":                   "!host:port",
		"easel:99999":               "!host:port",
		"ftp://easel:1":             "!host:port",
		"https://easel:1/v1":        "!host:port",
		"https://a:hunter2@easel:1": "!host:port",
		"a:hunter2@easel:1":         "!host:port",
		"hunter2@easel":             "!host:port",
		"easel:50051//":             "!host:port",
		"https://":                  "!host:port",
		"dns:///easel:50051":        "!host:port",
		"localhost:50051/v1":        "!host:port",
		"two words:50051":           "!host:port",
		"http://easel:1?key=value":  "!host:port",
	} {
		dialled := make(chan string, 1)
		client, err := easel.New(t.Context(), easel.WithAddress(address), easel.WithAPIKey(""), easel.WithAttempts(1), easel.WithDialer(func(_ context.Context, addr string) (net.Conn, error) {
			select {
			case dialled <- addr:
			default:
			}
			return nil, errors.New("no server is there")
		}))
		if part, refused := strings.CutPrefix(want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("New with the address %q returned %v; want an error that explains the form and does not contain the password", address, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("New with the address %q: %v", address, err)
			continue
		}
		if _, err := client.Accounts.GetAccount(t.Context(), &easelv1.GetAccountRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("a call to the address %q returned %v, want Unavailable", address, err)
		}
		if got := <-dialled; got != want {
			t.Errorf("address %q: the client dialed %s, want %s", address, got, want)
		}
	}
}

func TestFormattingClientDoesNotRevealAPIKey(t *testing.T) {
	client, err := easel.New(t.Context(), easel.WithAddress("localhost:1"), easel.WithAPIKey("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v %#v", client, client); strings.Contains(text, "hunter2") || !strings.Contains(text, "localhost:1") {
		t.Error(text)
	}
}

func TestNewRejectsAPIKeyIfDialOptionDisablesTLS(t *testing.T) {
	plain := easel.WithDialOptions(grpc.WithTransportCredentials(insecure.NewCredentials()))
	for address, refused := range map[string]bool{"easel.example:1": true, "https://localhost:1": true, "localhost:1": false} {
		if _, err := easel.New(t.Context(), easel.WithAddress(address), easel.WithAPIKey("hunter2"), plain); (err != nil) != refused {
			t.Errorf("address %s with plaintext transport credentials: %v", address, err)
		}
	}
}

func TestAPIKeyRequiresTLSExceptOnLoopback(t *testing.T) {
	for _, test := range []struct {
		address string
		options []easel.Option
		refused bool
	}{
		{"localhost:1", nil, false},
		{"http://127.0.0.1:1", nil, false},
		{"easel.example:1", nil, false}, // uses TLS
		{"https://easel.example:1", nil, false},
		{"http://easel.example:1", nil, true},
		{"http://easel.example:1", []easel.Option{easel.WithPlaintextKey()}, false},
		{"http://easel.example:1", []easel.Option{easel.WithAPIKey("")}, false},
		{"localhost:1", []easel.Option{easel.WithAPIKey("two words")}, true},
		{"localhost:1", []easel.Option{easel.WithAPIKey("from-a-file\n")}, false},
	} {
		_, err := easel.New(t.Context(), append([]easel.Option{easel.WithAddress(test.address), easel.WithAPIKey("hunter2")}, test.options...)...)
		if (err != nil) != test.refused || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New with the address %s returned %v; want an error only if the key is invalid or would be sent without TLS, and an error that does not contain the key", test.address, err)
		}
	}
	t.Setenv("EASEL_ALLOW_PLAINTEXT", "true")
	if _, err := easel.New(t.Context(), easel.WithAddress("http://easel.example:1"), easel.WithAPIKey("hunter2")); err != nil {
		t.Errorf("with EASEL_ALLOW_PLAINTEXT=true: %v", err)
	}
}

// observed is a context that counts the functions that are registered with context.AfterFunc.
type observed struct {
	context.Context
	done    chan struct{}
	waiting *int
}

func (o observed) Done() <-chan struct{} { return o.done }

func (o observed) AfterFunc(func()) func() bool {
	*o.waiting++
	return func() bool { *o.waiting--; return true }
}

func TestClosingClientRemovesContextCallback(t *testing.T) {
	waiting := 0
	client, err := easel.New(observed{context.Background(), make(chan struct{}), &waiting}, easel.WithAddress("localhost:1"))
	if err != nil || waiting != 1 {
		t.Fatal(waiting, err)
	}
	if err := client.Close(); err != nil || waiting != 0 {
		t.Errorf("after Close, %d functions are registered with the context, want 0: %v", waiting, err)
	}
}
