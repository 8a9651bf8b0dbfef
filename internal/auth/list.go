// Package auth authenticates callers. It also reads the callers file, which lists the callers that may use the shared API key,
// their credentials and teams, and the limits of each team.
package auth

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"path"
	"slices"
	"strings"
)

// Anonymous is the name of every caller without a credential. No caller in the file may have this name.
const Anonymous = "anonymous"

// Team is a team of callers. The zero value has no limit.
type Team struct {
	// Name is the name of the team, which owns the orders of its callers. It is empty for a caller without a team.
	Name string `yaml:"-"`
	// Weight is the team's share of the catalog's request rate, relative to other owners. Zero means 1.
	Weight float64
	Budget `yaml:"budget"`
	// Labels contains the rules for the labels of the team's orders.
	Labels Labels
	// Models contains patterns that match the models that the team may list, read, quote and order. Nil means every model.
	Models []string
	// RetentionDays is the number of days after which the content of settled orders is erased. Zero means never.
	RetentionDays int `yaml:"retention_days"`
	// KeepDeleted reports whether Easel keeps the copy of a result after the team has deleted the result.
	KeepDeleted bool `yaml:"keep_deleted"`
	// Events is the receiver of the team's events. Nil means no receiver.
	Events *Events
}

// Budget contains limits on spending for each UTC day and each UTC month, in cents. If a field is nil, there is no limit.
type Budget struct {
	DailyCents   *int64 `yaml:"daily_cents"`
	MonthlyCents *int64 `yaml:"monthly_cents"`
	// Thresholds are the percentages of a limit at which events are sent, as listed in the file. Nil means the default
	// percentages.
	Thresholds []int64
}

// Labels contains the rules for the labels of a team's orders.
type Labels struct {
	// Required are the names of the labels that each order must have.
	Required []string
	// Budgets contains a budget for each label name. The budget applies to each value of the label separately.
	Budgets map[string]Budget
}

// IsLimited reports whether the budget has a limit.
func (b Budget) IsLimited() bool { return b.DailyCents != nil || b.MonthlyCents != nil }

// Events is a receiver of events.
type Events struct {
	// URL is the address of the receiver.
	URL string
	// SecretFile is the path of the file that contains the secrets for signing events.
	SecretFile string `yaml:"secret_file"`
}

// Allows reports whether the team may use a model. The patterns have the syntax of [path.Match]. The schema guarantees that
// they are valid.
func (t Team) Allows(model string) bool {
	return t.Models == nil || slices.ContainsFunc(t.Models, func(pattern string) bool {
		matched, _ := path.Match(pattern, model)
		return matched
	})
}

// Caller is a service that may use the shared API key.
type Caller struct {
	Name string
	// Team is the team of the caller. If the caller has no team, Team.Name is empty, but Team.Budget may be set.
	Team Team
	// Operator reports whether the caller may see every owner's orders.
	Operator bool
}

// Owner returns the owner of the caller's orders: its team, or the caller itself if it has no team.
func (c Caller) Owner() string { return cmp.Or(c.Team.Name, c.Name) }

// Subject identifies the holder of a JWT. It consists of the iss and sub claims.
type Subject struct{ Issuer, Name string }

// List contains the entries of a callers file.
type List struct {
	// Callers contains the callers in the order of the file. Issuers and Teams are keyed by name.
	Callers []*Caller
	Issuers map[string]*Issuer
	Teams   map[string]Team
	// Total contains the budget that all callers share, and the receiver of events about this budget. The other fields of Total
	// are empty.
	Total Team

	owners       map[string]Team // teams, keyed by owner name; also contains an entry for each caller without a team
	tokens       map[tokenHash]*Caller
	certificates map[string]*Caller
	subjects     map[Subject]*Caller
	digest       string // SHA-256 of the file, in hex
}

// tokenHash is the SHA-256 of a token. Tokens are looked up by hash, so that the duration of a lookup reveals nothing about
// them.
type tokenHash [sha256.Size]byte

// Owners returns the sorted names of all teams and of the callers without a team.
func (l *List) Owners() []string { return slices.Sorted(maps.Keys(l.owners)) }

// callerOfCertificate returns the caller whose certificate has one of these DNS names or URIs, or nil. It also returns nil if
// the names belong to different callers.
func (l *List) callerOfCertificate(names []string) (found *Caller) {
	for _, name := range names {
		caller := l.certificates[certificateKey(name)]
		if caller != nil && found != nil && caller != found {
			return nil
		}
		if caller != nil {
			found = caller
		}
	}
	return found
}

// certificateKey converts a name to a key of List.certificates: a DNS name to lower case, a URI unchanged.
func certificateKey(name string) string {
	if strings.Contains(name, ":") {
		return name
	}
	return strings.ToLower(name)
}
