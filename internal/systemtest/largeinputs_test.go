package systemtest

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	render "github.com/easel-grpc/easel/clients/go"
	"github.com/easel-grpc/easel/internal/proctest"
)

// maxInputs is the highest value of EASEL_MAX_INPUTS.
const maxInputs = 16 << 20

var photos = flag.Int("photos", 4, "concurrent orders of 16 MiB in TestPhotosAreOrderedConcurrently")

// maxPhotoMemory is the maximum growth of the server's resident memory per concurrent order, in bytes.
const maxPhotoMemory = 256 << 20

// largeInputs returns inputs with a photo. As JSON, they have exactly the given number of bytes.
func largeInputs(bytes int) string {
	const head, tail = `{"prompt":"a lake","size":"64x40","photo":"data:image/jpeg;base64,`, `"}`
	return head + strings.Repeat("A", bytes-len(head)-len(tail)) + tail
}

// startForPhotos starts a sandbox, a server that accepts inputs of the maximum size, and a client.
func startForPhotos(t *testing.T) (server *proctest.Process, client *render.Client) {
	t.Helper()
	const key = "sandbox_live_of_large_inputs"
	box := proctest.Sandbox(t, "--speed", "50", "--key", key)
	server = proctest.Serve(t, map[string]string{
		"EASEL_UPSTREAM_URL": box.Catalog, "EASEL_MAX_INPUTS": fmt.Sprint(maxInputs),
		"EASEL_UPSTREAM_KEY_FILE": proctest.File(t, key), "EASEL_ALLOW_ANONYMOUS": "true", "EASEL_LEDGER_URL": sqliteLedger(t),
	})
	client, err := render.New(t.Context(), render.WithAddress(server.GRPC))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

func TestPhotoOfTheMaximumSizeIsOrdered(t *testing.T) {
	t.Parallel()
	server, client := startForPhotos(t)
	if _, err := client.Order(t.Context(), render.Order{Model: "studio/abstract", InputsJSON: largeInputs(maxInputs), Key: "grpc"}); err != nil {
		t.Errorf("over gRPC: %v", err)
	}
	if text := placeByREST(t, server, "rest", largeInputs(maxInputs)); !strings.Contains(text, `"generationId"`) {
		t.Errorf("over REST: %.300s", text)
	}
	tooLarge := largeInputs(maxInputs + 1)
	var invalid *render.InvalidRequestError
	if _, err := client.Order(t.Context(), render.Order{Model: "studio/abstract", InputsJSON: tooLarge, Key: "large-grpc"}); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "inputs_json: must be at most 16777216 bytes") {
		t.Errorf("a byte more over gRPC: %v", err)
	}
	for name, row := range map[string]struct{ inputs, reason string }{
		"a byte more": {tooLarge, "INVALID_REQUEST"}, "a MiB more": {largeInputs(maxInputs + 1<<20), "REQUEST_TOO_LARGE"},
	} {
		text := placeByREST(t, server, "large-rest", row.inputs)
		for _, want := range []string{`"` + row.reason + `"`, `"field":"inputs"`, "EASEL_MAX_INPUTS"} {
			if !strings.Contains(strings.ReplaceAll(text, `": "`, `":"`), want) {
				t.Errorf("%s over REST: no %s in %.500s", name, want, text)
			}
		}
	}
}

// With -photos 50, TestPhotosAreOrderedConcurrently measures the memory that docs/operators.md states.
func TestPhotosAreOrderedConcurrently(t *testing.T) {
	if testing.Short() {
		t.Skip("this test sends large orders")
	}
	server, client := startForPhotos(t)
	inputs := largeInputs(maxInputs)
	before, _ := proctest.Memory(t, server.Pid())
	began := time.Now()
	var all sync.WaitGroup
	for n := range *photos {
		all.Go(func() {
			if _, err := client.Order(t.Context(), render.Order{Model: "studio/abstract", InputsJSON: inputs, Key: fmt.Sprint("k", n)}); err != nil {
				t.Errorf("order %d: %v", n, err)
			}
		})
	}
	all.Wait()
	_, highest := proctest.Memory(t, server.Pid())
	t.Logf("%d concurrent orders of %d MiB in %v: %d MB resident before, at most %d MB", *photos, maxInputs>>20, time.Since(began).Round(time.Second), before/1e6, highest/1e6)
	if highest-before > *photos*maxPhotoMemory {
		t.Errorf("the memory has grown by %d MB", (highest-before)/1e6)
	}
}

// placeByREST places an order over REST and returns the body of the response.
func placeByREST(t *testing.T, server *proctest.Process, key, inputs string) string {
	t.Helper()
	body := `{"modelId":"studio/abstract","idempotencyKey":"` + key + `","inputs":` + inputs + "}"
	_, text := proctest.Request(t, http.MethodPost, "http://"+server.HTTP+"/v1/generations", body, "Content-Type", "application/json")
	return string(text)
}
