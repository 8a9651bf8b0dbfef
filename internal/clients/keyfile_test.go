package clients

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/metadata"
)

// keyFile is a file with the API key for the next call. The key changes after each call.
type keyFile struct {
	t    *testing.T
	path string

	mu     sync.Mutex
	number int
}

func newKeyFile(t *testing.T) *keyFile {
	t.Helper()
	k := &keyFile{t: t, path: filepath.Join(t.TempDir(), "key")}
	k.write()
	return k
}

// checkKey checks the API key of a call, and then writes the next key to the file. It also accepts the previous key,
// because the call may have started before the last write.
func (k *keyFile) checkKey(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	got := metadata.ValueFromIncomingContext(ctx, "authorization")
	wants := []string{bearerOf(k.number), bearerOf(k.number - 1)}
	if len(got) != 1 || !slices.Contains(wants, got[0]) {
		k.t.Errorf("the call after %d changes of the key has the authorization %q", k.number, got)
	}
	k.number++
	k.write()
}

func bearerOf(number int) string { return fmt.Sprintf("Bearer key-%d-of-a-script", number) }

func (k *keyFile) write() {
	text := bearerOf(k.number)[len("Bearer "):] + "\n"
	if err := os.WriteFile(k.path+".new", []byte(text), 0o600); err != nil {
		k.t.Error(err)
	}
	if err := os.Rename(k.path+".new", k.path); err != nil { // the kubelet replaces tokens in the same way
		k.t.Error(err)
	}
}
