package ledger_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/shared"
	"github.com/easel-grpc/easel/internal/proctest"
)

var manyChanges = flag.Bool("many-changes", false, "share 13,000 changes a second of ten API keys for half a minute, and not some for a moment")

// crowd is replicas that sweep once a second under each of some API keys, and what they have measured.
type crowd struct {
	*testing.T
	each int // changes in a sweep

	mu                      sync.Mutex
	sweeps, known           int
	claimed, written, heard []time.Duration
}

func (c *crowd) note(all *[]time.Duration, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*all = append(*all, d)
}

// swept are the changes of a sweep. Their etags say when they were found.
func (c *crowd) swept() (f shared.Found) {
	f.Swept = time.Now()
	etag, record := strconv.FormatInt(time.Now().UnixNano(), 10), strings.Repeat("r", 400)
	for i := range c.each {
		f.Changes = append(f.Changes, shared.Change{ID: fmt.Sprint("generation-", i), At: f.Swept, Etag: &etag, Listed: &etag, Record: &record})
	}
	return f
}

// poll makes the sweeps of one replica under one API key, until ctx ends.
func (c *crowd) poll(ctx context.Context, p *ledger.Polls, replica, apiKey string) {
	last := int64(0)
	for ctx.Err() == nil {
		began := time.Now()
		got, err := p.Claim(ctx, apiKey, shared.Ask{Replica: replica, Rate: 5, Sweep: true, LastSweep: last})
		if err != nil {
			continue // ctx has ended, or the next claim says so too
		}
		c.note(&c.claimed, time.Since(began))
		last = got.Key.Swept
		if got.Sweep {
			began = time.Now()
			if _, err := p.Write(ctx, apiKey, c.swept()); err == nil {
				c.note(&c.written, time.Since(began))
			}
			c.mu.Lock()
			c.sweeps++
			c.mu.Unlock()
		}
		pause(ctx, time.Second-time.Duration(got.Key.Now-got.Key.Swept)*time.Microsecond)
	}
}

// hear reads what all find under one API key, until ctx ends.
func (c *crowd) hear(ctx context.Context, p *ledger.Polls, apiKey string) {
	changed, stop := p.Changed(apiKey)
	defer stop()
	after := shared.Cursor{}
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		for more := true; more && ctx.Err() == nil; {
			got, err := p.News(ctx, apiKey, after, nil)
			if err != nil {
				break
			}
			after, more = got.Next, got.More
			c.hearAll(got.States)
		}
	}
}

func (c *crowd) hearAll(states []shared.State) {
	now := time.Now().UnixNano()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range states {
		found, _ := strconv.ParseInt(s.Etag, 10, 64) // we have written it
		c.known++
		c.heard = append(c.heard, time.Duration(now-found))
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "never"
	}
	slices.Sort(all)
	return fmt.Sprintf("%v / %v", all[len(all)/2].Round(10*time.Microsecond), all[len(all)*99/100].Round(10*time.Microsecond))
}

func TestManyChangesOfManyAPIKeysAreShared(t *testing.T) {
	replicas, keys, d := 3, 2, 3*time.Second
	c := &crowd{T: t, each: 50}
	if *manyChanges {
		replicas, keys, d, c.each = 8, 10, 30*time.Second, 1300
	}
	url := proctest.Database(t)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var work sync.WaitGroup
	for r := range replicas {
		p := sharedPolls(t, url)
		work.Go(func() { p.Run(ctx) })
		for k := range keys {
			apiKey := fmt.Sprint("key-", k)
			work.Go(func() { c.poll(ctx, p, fmt.Sprint("replica-", r), apiKey) })
			work.Go(func() { c.hear(ctx, p, apiKey) })
		}
	}
	work.Wait()
	rate := float64(c.sweeps) / d.Seconds() / float64(keys)
	t.Logf("%d replicas, %d API keys, %d changes a sweep: %.3f sweeps a second and key; p50 / p99 of a claim %s, of a write %s, until it is known %s",
		replicas, keys, c.each, rate, quantiles(c.claimed), quantiles(c.written), quantiles(c.heard))
	if most := 1.001 + 1/d.Seconds(); rate > most { // the first comes at once
		t.Errorf("%.3f sweeps a second and API key", rate)
	}
	if least := c.each * (replicas - 1) * keys; c.known < least {
		t.Errorf("%d changes are known, of one sweep alone %d", c.known, least)
	}
}
