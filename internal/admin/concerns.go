package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// Thresholds for warnings.
const (
	crowded      = 0.8              // a limit or a budget causes a warning when this fraction of it is used
	stale        = 60 * time.Second // a watched render causes a warning if its last response is older than this, unless polls fail or are throttled
	persistent   = 3                // minimum number of consecutive failed polls for which a warning about failed requests is grave
	longWaiting  = 10 * time.Second // a request that has waited this long for a permit causes a warning
	unknownLong  = 10 * time.Minute // an order with an unknown outcome causes a warning at this age
	silentLong   = 30 * time.Minute // an undelivered event causes a warning at this age
	uncopiedLong = 15 * time.Minute // a result that has waited this long to be copied causes a warning
)

// concern is a warning to the operator.
type concern struct {
	Grave bool   `json:"grave"` // whether the operator must act
	Text  string `json:"text"`
}

type concerns []concern

// addIf adds a warning if isTrue is true. isGrave means that the operator must act.
func (c *concerns) addIf(isTrue, isGrave bool, format string, args ...any) {
	if isTrue {
		*c = append(*c, concern{Grave: isGrave, Text: fmt.Sprintf(format, args...)})
	}
}

// concerns returns all warnings, starting with those that require the operator to act. problems maps a setting to the errors
// from the last reload of its files. The key [Issuers] maps to the errors from reading the keys of token issuers.
func (r *report) concerns(problems map[string][]error) []concern {
	all := concerns{}
	all.addIf(!r.Serving, true, "This server accepts no calls: it is stopping, or still starting.")
	all.addKeys(r)
	all.addLimiters(r)
	all.addLedger(r)
	for _, setting := range slices.Sorted(maps.Keys(problems)) {
		for _, err := range problems[setting] {
			all.addIf(setting != Issuers, true, "A changed settings file can't be applied: %v. Its previous content stays in effect, but the next start of the server fails.", err)
			all.addIf(setting == Issuers, true, "The keys of an issuer can't be read: %v. Its tokens are accepted with the previous keys, if there are any, for a day.", err)
		}
	}
	for _, u := range r.Usage {
		all.addIf(u.Used > 0 && float64(u.Used) >= crowded*float64(u.Max), u.Used >= u.Max, "%d of %d %s are in use; further ones are rejected.", u.Used, u.Max, u.Limit)
	}
	slices.SortStableFunc(all, graveFirst)
	return all
}

func graveFirst(a, b concern) int {
	switch {
	case a.Grave == b.Grave:
		return 0
	case a.Grave:
		return -1
	}
	return 1
}

// addKeys adds one warning for each kind of problem that API keys have. The warning is grave only if at least [persistent]
// consecutive polls have failed, or if the catalog rejects a shared API key. addKeys also adds a warning if renders are polled
// too rarely.
func (c *concerns) addKeys(r *report) {
	troubled := 0
	for _, row := range []struct {
		condition watch.Condition
		text      string
		grave     func(watch.PolledCredential) bool
	}{
		{watch.ConditionThrottled, "The catalog asked %s (%s) to slow down: requests wait until it accepts more.", func(watch.PolledCredential) bool { return false }},
		{watch.ConditionUnreachable, "Requests to the catalog fail for %s (%s). Watches stay open and catch up automatically.", func(k watch.PolledCredential) bool { return k.Failures >= persistent }},
		{watch.ConditionCredentialRejected, "The catalog rejects %s (%s).", func(k watch.PolledCredential) bool { return k.IsShared }},
	} {
		keys := slices.DeleteFunc(slices.Clone(r.Keys), func(k watch.PolledCredential) bool { return k.Condition != row.condition })
		n := r.Watching.Conditions[row.condition]
		troubled += n
		c.addIf(n > 0, slices.ContainsFunc(keys, row.grave), row.text, count(n), joinNames(fingerprints(keys)))
	}
	c.addIf(r.Watching.Stalest > stale && troubled == 0, false, "A render was not polled for %s although the catalog responds: more renders are watched than EASEL_POLL_RATE allows.",
		r.Watching.Stalest.Round(time.Second))
}

func fingerprints(keys []watch.PolledCredential) (all []string) {
	for _, k := range keys {
		all = append(all, k.Tenant.Fingerprint())
	}
	return all
}

func count(keys int) string {
	if keys == 1 {
		return "an API key"
	}
	return fmt.Sprintf("%d API keys", keys)
}

// joinNames joins at most five of the names with commas. An ellipsis marks omitted names.
func joinNames(names []string) string {
	const shown = 5
	if len(names) > shown {
		names = append(names[:shown:shown], "…")
	}
	return strings.Join(names, ", ")
}

// addLimiters adds the warnings about daily caps that are reached and about requests that wait for permits.
func (c *concerns) addLimiters(r *report) {
	requests, longest := 0, time.Duration(0)
	for _, key := range slices.Sorted(maps.Keys(r.Limiters)) {
		l := r.Limiters[key]
		c.addIf(l.Capped, true, "The daily cap of an API key (%s) is reached: the catalog accepts no orders until the cap is raised, or until midnight UTC.", key)
		for _, w := range l.Waiting {
			requests, longest = requests+w.Count, max(longest, r.Time.Sub(w.Since))
		}
	}
	c.addIf(longest >= longWaiting, false, "%d requests wait for permits, the first for %s: callers send more than the catalog accepts.", requests, longest.Round(time.Second))
}

// addLedger adds the warnings about the ledger, its owners, their events, and the copies of results.
func (c *concerns) addLedger(r *report) {
	known := r.Ledger
	c.addIf(!known.Up, true, "The ledger does not answer: orders are rejected until it does. Watches of known renders continue.")
	c.addIf(known.Faults > 0, true, "Contradictions about orders since the start: %d. The log describes each of them.", known.Faults)
	c.addIf(known.Unknown > 0 && known.OldestUnknown >= unknownLong, false, "Orders whose outcome is unknown: %d, the oldest for %s; see easel orders list --unknown.",
		known.Unknown, known.OldestUnknown.Round(time.Minute))
	var silent, abandoned, poor []string
	for _, e := range known.Events {
		if e.Pending > 0 && e.Oldest >= silentLong {
			silent = append(silent, e.Owner)
		}
		if e.GivenUp > 0 {
			abandoned = append(abandoned, e.Owner)
		}
	}
	for _, o := range known.Owners {
		if slices.ContainsFunc(o.Budgets, isNearlySpent) {
			poor = append(poor, o.Owner)
		}
	}
	c.addIf(len(silent) > 0, false, "The receivers of these teams do not accept events (see easel events list): %s.", joinNames(silent))
	c.addIf(len(abandoned) > 0, false, "The delivery of events to these teams was abandoned (send them again with easel events replay): %s.", joinNames(abandoned))
	c.addIf(len(poor) > 0, false, "These owners have at most a fifth of a budget left: %s.", joinNames(poor))
	copied := known.Contents
	c.addIf(r.Copies && copied.Waiting > 0 && copied.Oldest >= uncopiedLong, false,
		"Results that wait to be copied: %d, the oldest for %s. The log has the reason. Results are read from the catalog.", copied.Waiting, copied.Oldest.Round(time.Minute))
	c.addIf(r.Copies && copied.Failed > 0, false, "Results whose copy was abandoned: %d. The log has the reasons.", copied.Failed)
}

// isNearlySpent reports whether at most a fifth of a budget is left.
func isNearlySpent(b ledger.Budget) bool {
	return float64(b.LeftCents()) <= (1-crowded)*max(1, float64(b.LimitCents))
}
