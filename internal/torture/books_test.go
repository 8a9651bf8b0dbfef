//go:build unix

package torture

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// readAudit reads the accounts of the sandbox, over its administration.
func readAudit(ctx context.Context, addr string) (a sandbox.Audit, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+sandbox.AdminPath+"audit?key="+key, nil)
	if err != nil {
		return a, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return a, errors.New("the audit is answered " + answer.Status)
	}
	return a, json.NewDecoder(answer.Body).Decode(&a)
}

// settledAudit waits until every generation has ended and all due refunds are made.
func settledAudit(ctx context.Context, addr string) (sandbox.Audit, error) {
	for {
		a, err := readAudit(ctx, addr)
		if err != nil {
			return a, err
		}
		if err := a.Check(); err != nil {
			return a, err
		}
		open := 0
		for _, g := range a.Generations {
			if g.Status != "succeeded" && g.Status != "refunded" {
				open++
			}
		}
		if open == 0 {
			return a, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return a, fmt.Errorf("%d generations never ended", open)
		}
	}
}

// compareOutcomes compares the outcomes that callers got with the ledger.
func compareOutcomes(told map[string]string, a sandbox.Audit) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	generations := map[string]string{}
	for _, g := range a.Generations {
		if other, twice := generations[g.IdempotencyKey]; twice {
			fault("%s was ordered twice: %s and %s", g.IdempotencyKey, other, g.ID)
		}
		generations[g.IdempotencyKey] = g.ID
		if told[g.IdempotencyKey] != g.ID {
			fault("%s is the generation %s, and its caller received %q", g.IdempotencyKey, g.ID, told[g.IdempotencyKey])
		}
	}
	for order, id := range told {
		if generations[order] == "" {
			fault("%s was reported as %s, and the accounts don't have it", order, id)
		}
		if n := a.ChargesByIdempotencyKey[order]; n != 1 {
			fault("%s was charged %d times", order, n)
		}
	}
	return some(faults)
}

// some joins the first of many faults.
func some(faults []error) error {
	if len(faults) > 20 {
		faults = append(faults[:20], fmt.Errorf("and %d more", len(faults)-20))
	}
	return errors.Join(faults...)
}

// readPictures reads the file of every generation that has one. Each must be complete, although the
// catalog was killed while it wrote them: its ETag is a digest of the image.
func readPictures(ctx context.Context, addr string, a sandbox.Audit) (n int, err error) {
	for _, g := range a.Generations {
		if g.Model != picture || g.Status != "succeeded" {
			continue
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+sandbox.BasePath+"/generations/"+g.ID+"/content", nil)
		if err != nil {
			return n, err
		}
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return n, err
		}
		digest := sha256.New()
		_, err = io.Copy(digest, answer.Body)
		answer.Body.Close()
		if tag := fmt.Sprintf("%q", hex.EncodeToString(digest.Sum(nil)[:16])); err != nil || answer.Header.Get("ETag") != tag {
			return n, fmt.Errorf("the file of %s is %s, and should be %s: %w", g.ID, tag, answer.Header.Get("ETag"), err)
		}
		n++
	}
	return n, nil
}

// counters counts kills, cuts and other events of a run.
type counters struct {
	mu        sync.Mutex
	calls     int
	kills     [points]int
	cuts      [cuts]int
	amid      int // kills of a facade that was seen to be writing
	retired   int // connections that a facade closed because they were silent
	cutUnsaid int // connections to callers that were cut just before a delivery
}

func (t *counters) add(n *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

func (t *counters) kill(at point)    { t.add(&t.kills[at]) }
func (t *counters) cut(kind cut)     { t.add(&t.cuts[kind]) }
func (t *counters) call()            { t.add(&t.calls) }
func (t *counters) retire()          { t.add(&t.retired) }
func (t *counters) cutBeforeAnswer() { t.add(&t.cutUnsaid) }

func (t *counters) writing(seen bool) {
	if seen {
		t.add(&t.amid)
	}
}

// totals returns the number of kills of facades, of kills of the catalog, and of cuts between them.
func (t *counters) totals() (facades, catalogs, severed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, n := range t.kills {
		if point(at) < catalogBefore {
			facades += n
		} else {
			catalogs += n
		}
	}
	for _, n := range t.cuts {
		severed += n
	}
	return facades, catalogs, severed
}

// missing returns the names of the points and cuts that never happened.
func (t *counters) missing(wanted []point) (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, at := range wanted {
		if t.kills[at] == 0 {
			names = append(names, at.String())
		}
	}
	for kind, n := range t.cuts {
		if n == 0 {
			names = append(names, cut(kind).String())
		}
	}
	if t.amid == 0 {
		names = append(names, "a facade that was seen to be writing")
	}
	return names
}

// table returns all figures of a run.
func (t *counters) table(wanted []point, a sandbox.Audit, pictures int, took time.Duration) string {
	facades, catalogs, severed := t.totals()
	t.mu.Lock()
	defer t.mu.Unlock()
	var text strings.Builder
	row := func(name string, n int, more ...any) {
		fmt.Fprintf(&text, "  %-42s %8d  %s\n", name, n, fmt.Sprint(more...))
	}
	charges, refunded := 0, 0
	for _, g := range a.Generations {
		charges += g.Charges
		refunded += g.Refunds
	}
	fmt.Fprintf(&text, "\n  %-42s %8s\n", "", "in "+took.Round(time.Second).String())
	row("orders that callers know of", len(a.Generations))
	row("charges in the books", charges)
	row("refunds, one for each failed generation", refunded)
	row("files, each of them whole", pictures)
	row("calls that it took", t.calls)
	row("facades killed", facades)
	for _, at := range wanted {
		note := ""
		switch at {
		case amidOrder:
			note = fmt.Sprintf("%d of them seen to be writing", t.amid)
		case catalogBefore: // the first of theirs
			row("sandboxes killed", catalogs)
		}
		row("  "+at.String(), t.kills[at], note)
	}
	row("cuts between facade and sandbox", severed)
	for kind, n := range t.cuts {
		note := ""
		if cut(kind) == hole {
			note = fmt.Sprintf("%d given up by the facade, the others killed with it", t.retired)
		}
		row("  "+cut(kind).String(), n, note)
	}
	row("cuts before callers had heard", t.cutUnsaid)
	return text.String()
}
