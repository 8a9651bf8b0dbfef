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
	crowded = 0.8              // share of a limit from which somebody should know
	stale   = 60 * time.Second // since an answer, while all seems well
	most    = 5                // API keys that are named
	// persistent is how many polls fail in a row before it is more than a hiccup.
	persistent = 3
)

// apiKeyConcerns are the sentences about the API keys in a condition: how many they are, and which.
var apiKeyConcerns = [...]string{
	watch.ConditionThrottled:          "The catalog has told %s to slow down: all requests wait in turn until it takes more.",
	watch.ConditionUnreachable:        "The catalog does not answer as it should for %s. Watches stay open and catch up by themselves.",
	watch.ConditionCredentialRejected: "The catalog rejects %s.",
}

// gravity says whether somebody has to act for the API keys in a condition, and names the first. A
// poll that fails now and then, and a wrong API key of a caller's own, are no reason to.
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

// concerns are all of them.
type concerns []concern

// add adds a concern.
func (c *concerns) add(grave bool, format string, args ...any) {
	*c = append(*c, concern{Grave: grave, Text: fmt.Sprintf(format, args...)})
}

// name adds a concern that ends with names.
func (c *concerns) name(grave bool, text, names string) { c.add(grave, "%s: %s.", text, names) }

// keys adds a concern about API keys: their number, and names of some.
func (c *concerns) keys(grave bool, say, many, names string) { c.add(grave, say, many+" ("+names+")") }

// concernsOf lists in sentences what is wrong, the worst first.
func concernsOf(r report, s watch.Stats) []concern {
	all := concerns{}
	if !r.Serving {
		all.add(true, "This server takes no calls: it is going down, or has not begun.")
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
		all.add(false, "A render has had no answer for %s though the catalog answers: more is watched than EASEL_POLL_RATE lets be asked.", s.Stalest.Round(time.Second))
	}
	r.Limiters.concerns(r.Time, &all)
	r.Ledger.concerns(r.Time, &all)
	if r.Copies != nil {
		r.Copies.concerns(r.Time, &all)
	}
	for _, file := range r.brokenFiles {
		all.name(true, "A file of the settings has changed and is not taken over; what was in force stays, until the next start fails", file)
	}
	for _, issuer := range slices.Sorted(maps.Keys(r.brokenIssuers)) {
		all.name(true, "The keys of an issuer can't be read; its tokens are taken for a day by the keys of before, if there are any",
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

// troubled is how many API keys the catalog does not serve as it should.
func troubled(s watch.Stats) int {
	return s.Conditions[watch.ConditionThrottled] + s.Conditions[watch.ConditionUnreachable] + s.Conditions[watch.ConditionCredentialRejected]
}
