package systemtest

import (
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

// maxInputs is the highest valid value of EASEL_MAX_INPUTS.
const maxInputs = 16 << 20

var photos = flag.Int("photos", 4, "concurrent orders of 16 MiB in TestConcurrentOrdersWithLargeInputsUseBoundedMemory")

// maxPhotoMemory is the maximum growth of the server's resident memory per concurrent order, in bytes.
const maxPhotoMemory = 256 << 20

// largeInputs returns inputs with a photo. As JSON, they have exactly the given number of bytes.
func largeInputs(bytes int) string {
	const head, tail = `{"prompt":"a lake","size":"64x40","photo":"data:image/jpeg;base64,`, `"}`
	return head + strings.Repeat("A", bytes-len(head)-len(tail)) + tail
}

// TestConcurrentOrdersWithLargeInputsUseBoundedMemory sends concurrent orders with large inputs and checks that the server's
// memory grows by at most maxPhotoMemory for each order. docs/operators.md states the amount that this test measures if it runs
// with the flag -photos 50.
func TestConcurrentOrdersWithLargeInputsUseBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("this test sends large orders")
	}
	const key = "sandbox_live_of_large_inputs"
	box := proctest.Sandbox(t, "--speed", "50", "--key", key)
	server := proctest.Serve(t, proctest.Settings{
		"EASEL_UPSTREAM_URL": box.Catalog, "EASEL_MAX_INPUTS": fmt.Sprint(maxInputs),
		"EASEL_UPSTREAM_KEY_FILE": proctest.File(t, key), "EASEL_ALLOW_ANONYMOUS": "true", "EASEL_LEDGER_URL": sqliteLedger(t),
	})
	client, err := render.New(t.Context(), render.WithAddress(server.GRPC))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
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
		t.Errorf("the memory grew by %d MB", (highest-before)/1e6)
	}
	for inputs, wants := range map[string][]string{
		inputs: {`"generationId"`}, largeInputs(maxInputs + 1<<20): {`"REQUEST_TOO_LARGE"`, `"field":"inputs"`, "EASEL_MAX_INPUTS"},
	} {
		body := `{"modelId":"studio/abstract","idempotencyKey":"rest","inputs":` + inputs + "}"
		_, text := proctest.Request(t, http.MethodPost, "http://"+server.HTTP+"/v1/generations", body, "Content-Type", "application/json")
		for _, want := range wants {
			if !strings.Contains(strings.ReplaceAll(string(text), `": "`, `":"`), want) {
				t.Errorf("inputs of %d bytes over REST: no %s in %.500s", len(inputs), want, text)
			}
		}
	}
}
