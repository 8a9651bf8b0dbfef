package systemtest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

// readTimeout is the read timeout of nginx in these tests. The shipped file sets it to 75 s. A watch can stay open
// for longer than this timeout only because the server sends heartbeats.
const readTimeout = 2 * time.Second

// proxied is a server behind a proxy. The server and the proxy are separate programs. The clients connect through
// the proxy.
type proxied struct {
	generations easelv1.GenerationServiceClient // client that connects through the proxy
	rest        *http.Client                    // client that connects to the proxy, regardless of the host in the URL
	key         string
}

// startNginx starts a server behind nginx.
func startNginx(t *testing.T, flags ...string) proxied {
	t.Helper()
	return nginxBefore(t, proctest.StartDev(t, append(flags, "--http-allowed-hosts", "easel.example")...))
}

// nginxBefore starts nginx with deploy/nginx/easel.conf in front of a server. nginx listens on Unix sockets,
// because its ports could already be in use. swaps contains replacements for strings in the file, as pairs of an
// old and a new string.
func nginxBefore(t *testing.T, server *proctest.Process, swaps ...[2]string) proxied {
	t.Helper()
	binary := tool(t, "nginx")
	dir, err := os.MkdirTemp("", "nginx") // a short path, because the length of a socket's path is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	writeNginxFiles(t, dir, server, swaps...)
	runNginx(t, binary, dir)

	conn := proctest.Dial(t, "unix:"+filepath.Join(dir, "grpc"))
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "rest"))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return proxied{easelv1.NewGenerationServiceClient(conn), &http.Client{Transport: transport}, server.Key}
}

// readDeployed returns the content of a file with the replacements in swaps, which contains pairs of an old and a new
// string. It fails the test if an old string is not in the file.
func readDeployed(t *testing.T, file string, swaps [][2]string) string {
	t.Helper()
	text := proctest.Read(t, file)
	for _, swap := range swaps {
		if !strings.Contains(text, swap[0]) {
			t.Fatalf("%q is not in %s", swap[0], file)
		}
		text = strings.ReplaceAll(text, swap[0], swap[1])
	}
	return text
}

// writeNginxFiles writes nginx.conf and easel.conf to dir. In easel.conf, it replaces the addresses and timeouts
// with those of the test, and then makes the replacements in swaps.
func writeNginxFiles(t *testing.T, dir string, server *proctest.Process, swaps ...[2]string) {
	t.Helper()
	text := readDeployed(t, filepath.Join("deploy", "nginx", "easel.conf"), append([][2]string{
		{"easel:50051", server.GRPC},
		{"easel:8080", server.HTTP},
		{"listen 50051 ", "listen unix:" + filepath.Join(dir, "grpc") + " "},
		{"listen 8080;", "listen unix:" + filepath.Join(dir, "rest") + ";"},
		{"_read_timeout 75s;", fmt.Sprintf("_read_timeout %ds;", int(readTimeout.Seconds()))},
	}, swaps...))
	frame := "pid nginx.pid;\nevents {}\nhttp {\n  access_log off;\n"
	if os.Getuid() == 0 {
		frame = "user root;\n" + frame
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		frame += "  " + kind + "_temp_path " + kind + ";\n"
	}
	for name, text := range map[string]string{"easel.conf": text, "nginx.conf": frame + "  include easel.conf;\n}\n"} {
		proctest.Write(t, filepath.Join(dir, name), text)
	}
}

// runNginx starts nginx, waits for its sockets, and stops it at the end of the test.
func runNginx(t *testing.T, binary, dir string) {
	t.Helper()
	p := proctest.Start(t, os.Environ(), binary, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr", "-g", "daemon off;")
	t.Cleanup(func() { p.Stop() }) // stopping nginx also stops its workers
	waitFor(t, "nginx that listens", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", filepath.Join(dir, "rest"))
		if err != nil {
			return false
		}
		conn.Close()
		return true
	}, p.Output.String)
}

// The returned context is for calls to the server. It carries the API key, and is done after a minute.
func (p proxied) as(t *testing.T) context.Context {
	t.Helper()
	return bearingContext(t, p.key, time.Minute)
}

// watchAll opens a watch of all renders, with heartbeats at the given interval. This watch does not end on its
// own.
func (p proxied) watchAll(t *testing.T, heartbeat time.Duration) grpc.ServerStreamingClient[easelv1.WatchGenerationsResponse] {
	t.Helper()
	stream, err := p.generations.WatchGenerations(p.as(t), &easelv1.WatchGenerationsRequest{HeartbeatInterval: durationpb.New(heartbeat)})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// send sends a GET request for a path through the proxy. accept is the value of the Accept header.
func (p proxied) send(ctx context.Context, t *testing.T, path, accept string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://easel.example"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + p.key}, "Accept": {accept}}
	answer, err := p.rest.Do(request)
	if err == nil {
		t.Cleanup(func() { answer.Body.Close() })
	}
	return answer, err
}

// get is like send, but fails the test if the request fails or the status code is not 200.
func (p proxied) get(t *testing.T, path, accept string) *http.Response {
	t.Helper()
	answer, err := p.send(p.as(t), t, path, accept)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s returned %s", path, answer.Status)
	}
	return answer
}

func TestHeartbeatsKeepAWatchOpenThroughAProxy(t *testing.T) {
	for name, before := range proxies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := before(t, proctest.StartDev(t, "--http-allowed-hosts", "easel.example"))
			stream, began := p.watchAll(t, time.Second), time.Now()
			answer := p.get(t, "/v1/generations:watch?heartbeatInterval=1s", "text/event-stream")
			for beats := 0; beats < 5; {
				event, err := stream.Recv()
				if err != nil {
					t.Fatalf("the watch ended after %d heartbeats: %v", beats, err)
				}
				if event.GetHeartbeat() != nil {
					beats++
				}
			}
			beats := 0
			for lines := bufio.NewScanner(answer.Body); beats < 5 && lines.Scan(); {
				if strings.Contains(lines.Text(), `"heartbeat"`) {
					beats++
				}
			}
			if lasted := time.Since(began); beats < 5 || lasted < 2*readTimeout {
				t.Errorf("%d heartbeats over REST in %v; the watches must last longer than the proxy's timeout", beats, lasted)
			}
		})
	}
}

// orderPicture orders a picture with the given idempotency key, and returns the generation ID.
func (p proxied) orderPicture(t *testing.T, key string) string {
	t.Helper()
	inputs, err := structpb.NewStruct(map[string]any{"prompt": "a calm sea", "size": "640x400"})
	if err != nil {
		t.Fatal(err)
	}
	made, err := p.generations.CreateGeneration(p.as(t), &easelv1.CreateGenerationRequest{ModelId: "studio/landscape", Inputs: inputs, IdempotencyKey: key})
	if err != nil {
		t.Fatal(err)
	}
	return made.GetGeneration().GetGenerationId()
}

// slowRenders contains flags that make a render take longer than the read timeout.
var slowRenders = []string{"--speed", "2"}

// checkOutlasted checks that a call took at least as long as the read timeout. startTime is the time when the call
// started.
func checkOutlasted(t *testing.T, startTime time.Time) {
	t.Helper()
	if lasted := time.Since(startTime); lasted < readTimeout {
		t.Errorf("the call took %v, less than nginx's timeout for watches", lasted)
	}
}

func TestLongWaitCallSucceedsThroughNginx(t *testing.T) {
	t.Parallel()
	p := startNginx(t, slowRenders...)
	id, began := p.orderPicture(t, "waited"), time.Now()
	waited, err := p.generations.WaitGeneration(p.as(t), &easelv1.WaitGenerationRequest{GenerationId: id, Timeout: durationpb.New(50 * time.Second)})
	if err != nil || !waited.GetGeneration().GetTerminal() {
		t.Fatalf("%v, %v", waited, err)
	}
	checkOutlasted(t, began)
	id, began = p.orderPicture(t, "waited-over-rest"), time.Now()
	if _, err := io.Copy(io.Discard, p.get(t, "/v1/generations/"+id+":wait?timeout=50s", "application/json").Body); err != nil {
		t.Fatal(err)
	}
	checkOutlasted(t, began)
}

func TestDownloadThroughNginxWaitsForResult(t *testing.T) {
	t.Parallel()
	p := startNginx(t, slowRenders...)
	id, began := p.orderPicture(t, "downloaded"), time.Now()
	stream, err := p.generations.DownloadGeneration(p.as(t), &easelv1.DownloadGenerationRequest{GenerationId: id, WaitTimeout: durationpb.New(30 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	sum, size, said := sha256.New(), int64(0), ""
	for {
		answer, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n, _ := sum.Write(answer.GetChunk().GetData())
		size += int64(n)
		if end := answer.GetChunk().GetSummary(); end != nil {
			said = end.GetSha256()
		}
	}
	checkOutlasted(t, began)
	if got := hex.EncodeToString(sum.Sum(nil)); size == 0 || got != said {
		t.Errorf("received %d bytes with checksum %s, want checksum %s", size, got, said)
	}
	rest := sha256.New()
	if n, err := io.Copy(rest, p.get(t, "/v1/generations/"+id+"/content", "*/*").Body); err != nil || n != size || hex.EncodeToString(rest.Sum(nil)) != said {
		t.Errorf("over REST, received %d bytes with checksum %x: %v", n, rest.Sum(nil), err)
	}
}

func TestNginxReachesEaselOverTLS(t *testing.T) {
	t.Parallel()
	const key = "sandbox_live_behind_nginx"
	sandbox := proctest.Launch(t, proctest.Settings{"EASEL_SANDBOX_KEY": key}, "sandbox")
	certFile, keyFile := proctest.Certificate(t, "easel")
	served := proctest.Serve(t, map[string]string{
		"EASEL_UPSTREAM_URL": sandbox.Catalog, "EASEL_HTTP_ALLOWED_HOSTS": "easel.example",
		"EASEL_TLS_CERT_FILE": certFile, "EASEL_TLS_KEY_FILE": keyFile,
	})
	served.Key = key
	p := nginxBefore(t, served, [][2]string{ // the changes to easel.conf that its comments recommend for TLS between nginx and the server
		{"grpc://", "grpcs://"},
		{"http://", "https://"},
		{"#tls ", ""},
		{"/etc/nginx/easel-ca.crt", certFile},
		{"ssl_name easel;", "ssl_name localhost;"},
	}...)
	p.orderPicture(t, "over-tls")
	var list struct{ Generations []struct{} }
	if err := json.NewDecoder(p.get(t, "/v1/generations", "application/json").Body).Decode(&list); err != nil || len(list.Generations) != 1 {
		t.Errorf("over REST, received %d renders: %v", len(list.Generations), err)
	}
}
