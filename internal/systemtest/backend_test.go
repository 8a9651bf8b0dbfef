package systemtest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// The test runs the backend from docs/callers.md, which forwards a watch to browsers as an event stream, and
// reads this stream.
func TestExampleBackendForwardsWatchAsEventStream(t *testing.T) {
	t.Parallel()
	node, dev := tool(t, "node"), proctest.StartDev(t)
	script := strings.NewReplacer("http://localhost:8080", "http://"+dev.HTTP,
		"listen(3000)", `listen(0, "127.0.0.1", function () { console.log(this.address().port); })`).
		Replace(pageBlock(t, "import { createServer }"))
	ctx, cancel := context.WithCancel(t.Context())
	backend := exec.CommandContext(ctx, node, "--input-type=module", "-e", script)
	backend.Env, backend.Stderr = append(os.Environ(), "EASEL_API_KEY="+dev.Key), os.Stderr
	said, err := backend.StdoutPipe()
	if err == nil {
		err = backend.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = backend.Wait() }()
	port, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	watch := "http://127.0.0.1:" + strings.TrimSpace(port) + "/watch?id="
	if answer, err := http.Get(watch + "no-such-render"); err != nil || answer.StatusCode != http.StatusNotFound {
		t.Errorf("the response for a missing render is %v, %v", answer, err)
	} else {
		_ = answer.Body.Close()
	}
	ordered := runProgram(t, callerOf(dev), "generate", "studio/haiku", "prompt=rain", "-q")
	if ordered.exit != exitOK {
		t.Fatalf("exit %d\n%s", ordered.exit, ordered.stderr)
	}
	for _, leaves := range []bool{true, false} { // the first client disconnects early; the second client must still receive the complete stream
		answer, err := http.Get(watch + strings.TrimSpace(ordered.stdout))
		if err != nil {
			t.Fatal(err)
		}
		if media := answer.Header.Get("Content-Type"); media != "text/event-stream" {
			t.Errorf("the stream has the media type %s", media)
		}
		if !leaves {
			events, err := io.ReadAll(answer.Body)
			if text := string(events); err != nil || !strings.Contains(text, "event: update") || !strings.Contains(text, "STATE_SUCCEEDED") || !strings.Contains(text, "event: done") {
				t.Errorf("the stream, which ended with %v, is\n%s", err, text)
			}
		}
		_ = answer.Body.Close() // disconnects the first client; the second client has already read its complete stream
	}
}
