package proctest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Credentials of the only user of a [Bucket] from [StartBucket].
const (
	BucketKey    = "easel"
	BucketSecret = "the-secret-of-the-bucket"
)

// Bucket is an S3 server that can be killed and restarted.
type Bucket struct {
	// Endpoint is the server's URL.
	Endpoint string

	dir     string
	args    []string
	env     []string
	command *exec.Cmd
}

// StartBucket starts an S3 server for a test, or skips the test if the server is not installed. To install it, run
// 'make .build/s3'.
func StartBucket(t *testing.T) *Bucket {
	t.Helper()
	users := File(t, fmt.Sprintf(`{"identities":[{"name":"easel","credentials":[{"accessKey":%q,"secretKey":%q}],"actions":["Admin","Read","Write","List"]}]}`, BucketKey, BucketSecret))
	return RunBucket(t, nil, "server", "-filer", "-s3", "-s3.config="+users, "-volume.max=30", "-master.volumeSizeLimitMB=64")
}

// RunBucket starts an S3 server with the given arguments and environment. The server listens on free ports and
// stores its files in a temporary directory. If the server is not installed, RunBucket skips the test.
func RunBucket(t *testing.T, env []string, words ...string) *Bucket {
	t.Helper()
	weed := FromRoot(t, ".build", "s3", "bin", "weed")
	if _, err := os.Stat(weed); err != nil {
		t.Skip("S3 server is not installed: run make .build/s3")
	}
	b := &Bucket{dir: t.TempDir(), env: env}
	b.args = slices.Concat([]string{weed}, words, []string{
		"-dir=" + b.dir, "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
		"-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
	}) // the loop below adds flags for free ports, because the default ports may be in use
	for _, server := range []string{"master", "volume", "filer", "s3"} {
		for _, name := range []string{".port", ".port.grpc"} {
			port, err := freePort()
			if err != nil {
				t.Fatal(err)
			}
			b.args = append(b.args, fmt.Sprintf("-%s%s=%d", server, name, port))
			if server == "s3" && name == ".port" {
				b.Endpoint = fmt.Sprintf("http://127.0.0.1:%d", port)
			}
		}
	}
	t.Cleanup(b.Kill)
	b.Start(t)
	return b
}

// Start starts the server, and waits until it responds.
func (b *Bucket) Start(t *testing.T) {
	t.Helper()
	b.command = exec.Command(b.args[0], b.args[1:]...) //nolint:gosec,noctx // the arguments are fixed in this file; Kill stops the process without a context
	log, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		b.command.Stdout, b.command.Stderr, b.command.Dir = log, log, b.dir
		b.command.Env = append(os.Environ(), b.env...)
		err = b.command.Start()
		_ = log.Close() // the server has its own descriptor for the file
	}
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if answer, err := http.Get(b.Endpoint); err == nil { //nolint:noctx // no context is needed, because the server is on this machine
			_ = answer.Body.Close()
			return
		}
	}
	said, _ := os.ReadFile(filepath.Join(b.dir, "log"))
	t.Fatalf("S3 server does not respond:\n%s", said[max(0, len(said)-4000):])
}

// Kill kills the server if it is running.
func (b *Bucket) Kill() {
	if b.command != nil {
		_ = b.command.Process.Kill() // fails if the process has already exited
		_ = b.command.Wait()
		b.command = nil
	}
}

// URL returns the value of EASEL_CONTENT_URL that makes Easel store results in the given bucket on this server.
func (b *Bucket) URL(bucket string) string {
	return "s3://" + bucket + "/results?endpoint=" + strings.ReplaceAll(b.Endpoint, "/", "%2F") + "&region=us-east-1"
}
