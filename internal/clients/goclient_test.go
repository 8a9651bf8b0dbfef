package clients

import (
	"bytes"
	"fmt"
	"image/png"
	"slices"
	"testing"

	easel "github.com/easel-grpc/easel/clients/go"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestRunGivesAFinishedRenderOfTheRealServer(t *testing.T) {
	t.Parallel()
	dev := proctest.Start(t, nil, append([]string{proctest.Easel(t)}, proctest.Dev()...)...)
	dev.Ready(t, proctest.DevReady)
	env := proctest.DevClients(t, dev.Output.String())
	client, err := easel.New(t.Context(), easel.WithAddress(env["EASEL_ADDR"]), easel.WithAPIKey(env["EASEL_API_KEY"]))
	if err != nil {
		t.Fatal(err)
	}
	order := easel.Order{Model: "studio/landscape", Key: "order-1", Inputs: map[string]any{"prompt": "hills", "size": "320x200"}}
	render, err := client.Run(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	var picture bytes.Buffer
	if err := client.Download(t.Context(), render.GenerationID, &picture); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&picture); err != nil {
		t.Error(err)
	}
	again, err := client.Order(t.Context(), order)
	if err != nil || again.GenerationID != render.GenerationID || !again.Replayed || again.Key != "order-1" {
		t.Errorf("a second call with the same key returned %v, %v", again, err)
	}
	for one, err := range client.List(t.Context(), easel.Filter{Model: "studio/landscape", States: []easel.State{easel.StateSucceeded}}) {
		if err != nil || one.GenerationID != render.GenerationID || one.File == nil {
			t.Errorf("the list has %v, %v", one, err)
		}
	}
	rows, err := client.Usage(t.Context(), easel.UsageQuery{By: []easel.Dimension{easel.ByModel}})
	if err != nil || len(rows) != 1 || rows[0].OrderCount != 1 {
		t.Errorf("the usage is %v, %v", rows, err)
	}
	watchesOfTheRealServer(t, client, render)
}

// watchesOfTheRealServer watches a finished and an unknown render by ID, and expects the watch to end.
func watchesOfTheRealServer(t *testing.T, client *easel.Client, render *easel.Render) {
	t.Helper()
	var states []string
	for state, err := range client.WatchMany(t.Context(), []string{render.GenerationID, "unknown"}) {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, state.State.String())
	}
	if slices.Sort(states); fmt.Sprint(states) != "[DELETED SUCCEEDED]" {
		t.Errorf("the watch of two receives %s", states)
	}
}
