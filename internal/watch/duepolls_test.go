package watch

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// readCandidate returns a candidate with the given ID and urgency.
func readCandidate(id string, urgency float64) candidate {
	return candidate{e: &generation{id: id}, urgency: urgency}
}

// sweptCandidate returns a candidate that a list request can poll.
func sweptCandidate(id string) candidate { return candidate{e: &generation{id: id}, swept: true} }

// firstCandidate returns a candidate without a recent state, which a list request can poll.
func firstCandidate(id string) candidate {
	return candidate{e: &generation{id: id}, swept: true, first: true}
}

// hintedCandidate returns a candidate for which the list shows an unconfirmed change.
func hintedCandidate(id string) candidate { return candidate{e: &generation{id: id}, hinted: true} }

func TestPollPlanSelectsDueGenerations(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	list := func(s situation) situation {
		s.sweeps = true
		if s.sweptAt.IsZero() {
			s.sweptAt = ago(time.Second)
		}
		return s
	}
	for name, row := range map[string]struct {
		known situation
		sweep bool
		reads string
		more  bool
		next  time.Duration // expected time until the next read or list request; zero if none is planned for later
	}{
		"nothing is due":                                {known: situation{limit: 5}},
		"due generations are read":                      {known: situation{limit: 5, ready: []candidate{readCandidate("a", 1), readCandidate("b", 1)}}, reads: "a b"},
		"the most urgent first":                         {known: situation{limit: 2, ready: []candidate{readCandidate("a", 1), readCandidate("b", 3), readCandidate("c", 2)}}, reads: "b c", more: true},
		"a read without a free request":                 {known: situation{ready: []candidate{readCandidate("a", 1)}}, more: true},
		"reads alternate between hinted and urgent":     {known: situation{limit: 4, ready: []candidate{readCandidate("a", 9), readCandidate("b", 8), hintedCandidate("x"), hintedCandidate("y")}}, reads: "x a y b"},
		"the read after a hinted one":                   {known: situation{limit: 1, preferHinted: true, ready: []candidate{readCandidate("a", 9), hintedCandidate("x")}}, reads: "a", more: true},
		"no list requests: individual reads":            {known: situation{limit: 5, ready: []candidate{sweptCandidate("a"), firstCandidate("b")}}, reads: "a b"},
		"a list request and one read":                   {known: list(situation{limit: 5, sweepAt: now, ready: []candidate{sweptCandidate("a"), readCandidate("b", 1), firstCandidate("c")}}), sweep: true, reads: "b", next: 0},
		"a read waits for the next list request":        {known: list(situation{limit: 5, sweepAt: now.Add(time.Second), ready: []candidate{sweptCandidate("a")}}), next: time.Second},
		"a few first reads are sent at once":            {known: list(situation{limit: 5, sweepAt: now.Add(time.Second), ready: []candidate{firstCandidate("a"), firstCandidate("b")}}), reads: "a b", next: time.Second},
		"many first reads cause an early list request":  {known: list(situation{limit: 5, least: time.Second, sweepAt: now.Add(time.Minute), ready: []candidate{firstCandidate("a"), firstCandidate("b"), firstCandidate("c")}}), sweep: true},
		"no list request soon after the last one":       {known: list(situation{limit: 5, least: time.Second, sweptAt: ago(time.Millisecond), sweepAt: now.Add(time.Minute), ready: []candidate{firstCandidate("a"), firstCandidate("b"), firstCandidate("c")}}), next: 499 * time.Millisecond},
		"a first read waits for a running list request": {known: list(situation{limit: 5, least: time.Second, sweeping: true, sweptAt: ago(time.Millisecond), ready: []candidate{firstCandidate("a")}}), next: 999 * time.Millisecond},
		"a slow list request delays no first read":      {known: list(situation{limit: 5, least: time.Second, sweeping: true, sweptAt: ago(2 * time.Second), ready: []candidate{firstCandidate("a"), sweptCandidate("b")}}), reads: "a"},
		"no list request soon after a failed one":       {known: list(situation{limit: 5, sweepAt: now, sweepAfter: now.Add(time.Minute), ready: []candidate{sweptCandidate("a")}}), next: time.Minute},
		"a read precedes a list request that fails":     {known: list(situation{limit: 5, listFailing: true, sweepAt: now, ready: []candidate{readCandidate("a", 1)}}), reads: "a", more: true},
		"a list request without a free request":         {known: list(situation{sweepAt: now}), more: true},
		"first list for a watch of all generations":     {known: situation{limit: 1, firstList: true, sweptAt: ago(time.Hour)}, sweep: true},
	} {
		row.known.now = now
		got := row.known.planRequests()
		var ids []string
		for _, e := range got.reads {
			ids = append(ids, e.id)
		}
		if !got.sweep && got.next.After(now) != (row.next > 0) || row.next > 0 && got.next.Sub(now) != row.next {
			t.Errorf("%s: the next read or list request is at %v, want in %v", name, got.next, row.next)
		}
		if reads := strings.Join(ids, " "); got.sweep != row.sweep || reads != row.reads || got.more != row.more {
			t.Errorf("%s: got list request %v, reads %q, more due %v; want %v, %q, %v", name, got.sweep, reads, got.more, row.sweep, row.reads, row.more)
		}
	}
}

func TestPollPlanStaysWithinRequestLimit(t *testing.T) {
	ready := []candidate{readCandidate("a", 1), readCandidate("b", 1), sweptCandidate("c"), firstCandidate("d"), firstCandidate("e"), firstCandidate("f"), hintedCandidate("g")}
	for limit := range 10 {
		for _, sweeps := range []bool{false, true} {
			s := situation{now: time.Now(), limit: limit, sweeps: sweeps, ready: slices.Clone(ready)}
			p := s.planRequests()
			asked := len(p.reads)
			if p.sweep {
				asked++
			}
			if asked > limit {
				t.Errorf("%d requests, want at most %d", asked, limit)
			}
			for i, e := range p.reads {
				if slices.Contains(p.reads[:i], e) {
					t.Errorf("%s is read twice", e.id)
				}
			}
		}
	}
}
