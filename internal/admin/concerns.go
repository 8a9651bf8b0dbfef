package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/watch"
)

const (
	crowded = 0.8              // share of a limit from which the page warns
	stale   = 60 * time.Second // age of the last response from which the page warns, if nothing else fails
	most    = 5                // maximum number of named API keys
	// persistent is the number of consecutive failed polls that counts as more than a brief failure.
	persistent = 3
)

// apiKeyConcerns are the warnings for API keys in a condition, with a placeholder for their number.
var apiKeyConcerns = [...]string{
	watch.ConditionThrottled:          "The catalog asked %s to slow down: requests wait until it accepts more.",
	watch.ConditionUnreachable:        "Requests to the catalog fail for %s. Watches stay open and catch up automatically.",
	watch.ConditionCredentialRejected: "The catalog rejects %s.",
}

// gravity reports whether an operator has to act for the API keys in a condition, and returns the names of the first.
// An occasional failed poll, or an invalid API key of a caller, needs no action.
func gravity(keys []apiKey, condition string) (grave bool, names string) {
	var all []string
	for _, k := range keys {
		if k.Condition != condition {
			continue
		}
		grave = grave || condition == "unreachable" && k.Failures >= persistent || condition == "credential_rejected" && k.IsShared
		if len(all) < most {
			all = append(all, k.Key)
		} else if len(all) == most {
			all = append(all, "…")
		}
	}
	return grave, strings.Join(all, ", ")
}

func count(keys int) string {
	if keys == 1 {
		return "an API key"
	}
	return fmt.Sprintf("%d API keys", keys)
}

// concerns is the list of warnings.
type concerns []concern

// add adds a warning.
func (c *concerns) add(grave bool, format string, args ...any) {
	*c = append(*c, concern{Grave: grave, Text: fmt.Sprintf(format, args...)})
}

// name adds a warning that ends with names.
func (c *concerns) name(grave bool, text, names string) { c.add(grave, "%s: %s.", text, names) }

// keys adds a warning about API keys, with their number and some names.
func (c *concerns) keys(grave bool, say, many, names string) { c.add(grave, say, many+" ("+names+")") }

// concernsOf returns all warnings, most serious first.
func concernsOf(r report, s watch.Stats) []concern {
	all := concerns{}
	if !r.Serving {
		all.add(true, "This server accepts no calls: it is stopping, or still starting.")
	}
	for condition, say := range apiKeyConcerns {
		if say == "" {
			continue
		}
		if n := s.Conditions[condition]; n > 0 {
			grave, names := gravity(r.Keys, conditions[condition])
			all.keys(grave, say, count(n), names)
		}
	}
	if s.Stalest > stale && troubled(s) == 0 {
		all.add(false, "A render was not polled for %s although the catalog responds: more renders are watched than EASEL_POLL_RATE allows.", s.Stalest.Round(time.Second))
	}
	r.Limiters.concerns(r.Time, &all)
	r.Ledger.concerns(r.Time, &all)
	if r.Copies != nil {
		r.Copies.concerns(r.Time, &all)
	}
	for _, file := range r.brokenFiles {
		all.name(true, "A settings file has changed and is not applied; the previous content stays in effect, and the next start fails", file)
	}
	for _, issuer := range slices.Sorted(maps.Keys(r.brokenIssuers)) {
		all.name(true, "The keys of an issuer can't be read; its tokens are accepted for a day with the previous keys, if there are any",
			fmt.Sprintf("%s: %v", issuer, r.brokenIssuers[issuer]))
	}
	for _, u := range r.Usage {
		if u.Used >= int(crowded*float64(u.Max)) && u.Used > 0 {
			all.add(u.Used >= u.Max, "%d of %d %s are in use; further ones are rejected.", u.Used, u.Max, u.Limit)
		}
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

// troubled returns the number of API keys that the catalog throttles, rejects or does not serve.
func troubled(s watch.Stats) int {
	return s.Conditions[watch.ConditionThrottled] + s.Conditions[watch.ConditionUnreachable] + s.Conditions[watch.ConditionCredentialRejected]
}
