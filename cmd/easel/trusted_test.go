package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

func TestWhatDecidesWhoMayCallHasALineWhenItChanges(t *testing.T) {
	var written []string
	lines := newLateAudit(nil, slog.New(slog.DiscardHandler))
	lines.write = func(_ context.Context, act ledger.Act) error {
		before, _ := json.Marshal(act.Was)
		after, _ := json.Marshal(act.Became)
		written = append(written, fmt.Sprint(act.Actor, " ", act.Origin, " ", act.Action, " ", act.Subject == thisHost(), " ", string(before), " ", string(after)))
		return nil
	}
	now := &trusted{lines: lines}
	many := make([]string, 2*mostNamed)
	for n := range many {
		many[n] = fmt.Sprint("CN=", n)
	}
	replaced := append([]string{}, many...)
	replaced[mostNamed] = "CN=mallory" // beyond those that are named
	for _, step := range []struct {
		do    func()
		wants []string // in its line; nil: it has none
	}{
		{func() { now.takeAPIKey("key", catalog.NewSecret("canary-1")) }, nil},
		{func() { now.takeAuthorities("ca", []string{"CN=a sha256:1"}) }, nil},
		{func() { now.takeAPIKey("key", catalog.NewSecret("canary-1")) }, nil},
		{func() { now.takeAuthorities("ca", []string{"CN=a sha256:1"}) }, nil},
		{func() { now.takeAPIKey("key", catalog.NewSecret("canary-2")) }, []string{
			"API key file key api_key.change true", `{"api_key":"` + fingerprintOf(catalog.NewSecret("canary-1")) + `"} {"api_key":"` + fingerprintOf(catalog.NewSecret("canary-2")) + `","since":`,
		}},
		{func() { now.takeAuthorities("ca", many) }, []string{
			"client CA file ca authorities.change true", `{"client_authorities":{"names":["CN=a sha256:1"],"count":1,`, `["CN=0",`, `"CN=99"],"count":200,`,
		}},
		{func() { now.takeAuthorities("ca", replaced) }, []string{"authorities.change"}},
	} {
		written = nil
		step.do()
		lines.writeAll(t.Context())
		if len(written) != min(1, len(step.wants)) {
			t.Errorf("written are %q, want %q", written, step.wants)
		}
		for _, want := range step.wants {
			if !strings.Contains(written[0], want) {
				t.Errorf("the line is %s, want %s", written[0], want)
			}
		}
		if text := fmt.Sprint(written); strings.Contains(text, "canary") || strings.Contains(text, "mallory") {
			t.Errorf("the line is %s", text)
		}
	}
	before, _ := json.Marshal(now.now())
	if text := string(before); !strings.Contains(text, fingerprintOf(catalog.NewSecret("canary-2"))) || !strings.Contains(text, `"count":200`) {
		t.Errorf("in force is %s", text)
	}
}
