// Package auth authenticates callers. It reads the callers file, which lists the callers that may use a shared API key, with
// their credentials and their teams, and the limits of each team.
package auth

import (
	"crypto/sha256"
	"maps"
	"path"
	"slices"
	"strings"
)

// Anonymous is the name of a caller without a credential. No caller in the file may have this name.
const Anonymous = "anonymous"

// Team is a team of callers. The zero value has no limit.
type Team struct {
	// Name is the owner of the team's orders. It is empty for a caller without a team.
	Name string
	// Weight is the team's share of the catalog, relative to other owners. Zero means 1.
	Weight float64
	// DailyCents and MonthlyCents are the budget of the team. Nil means no limit.
	DailyCents, MonthlyCents *int64
	// Models are patterns of the models that the team may list, read, quote and order. Nil means every model.
	Models []string
	// RetentionDays is the number of days after which the content of settled orders is erased. Zero means never.
	RetentionDays int
	// KeepDeleted keeps the copy of a result that the team deletes.
	KeepDeleted bool
	// Events is the receiver of the team's events. Nil means none.
	Events *Events
}

// Events is a receiver of events.
type Events struct {
	// URL is the address of the receiver. SecretFile is the file with the secrets that sign events.
	URL, SecretFile string
	// Line is the line of SecretFile in the callers file.
	Line int
}

// Allows reports whether the team may use a model.
func (t Team) Allows(model string) bool {
	return t.Models == nil || slices.ContainsFunc(t.Models, func(pattern string) bool { return matches(pattern, model) })
}

// matches reports whether a valid pattern matches a model, as in [path.Match]. In addition, /** at the end matches everything
// after the slash.
func matches(pattern, model string) bool {
	head, open := strings.CutSuffix(pattern, "/**")
	if !open {
		matched, _ := path.Match(pattern, model)
		return matched
	}
	for n := range len(model) - 1 {
		if matched, _ := path.Match(head, model[:n]); matched && model[n] == '/' {
			return true
		}
	}
	return false
}

func (t Team) isLimited() bool { return t.DailyCents != nil || t.MonthlyCents != nil }

// Caller is a service that may use the shared API key.
type Caller struct {
	Name string
	// Team is the team of the caller. For a caller without a team, it has no name but may have a budget.
	Team Team
	// Operator means that the caller sees the orders of every owner.
	Operator bool
}

// Owner returns the owner of the caller's orders: its team, or the caller itself if it has no team.
func (c Caller) Owner() string {
	if c.Team.Name != "" {
		return c.Team.Name
	}
	return c.Name
}

// Issuer signs tokens (JWT) that prove the names of callers.
type Issuer struct {
	// Name is the iss claim of the tokens. Audience must be in their aud claim.
	Name, Audience string
	// KeysFile or KeysURL is the location of the public keys, a JSON Web Key Set.
	KeysFile, KeysURL string
	// CAFile is the file with the CAs for KeysURL. Empty means the CAs of the system. TokenFile is the file with the token for
	// KeysURL. Empty means no token.
	CAFile, TokenFile string
	// Line is the line of the issuer in the callers file.
	Line int
}

// Subject is the sub claim of a token, with the issuer of the token.
type Subject struct{ Issuer, Name string }

// List has the contents of a callers file.
type List struct {
	total        Team // only its budget is set
	all          []*Caller
	teams        []Team
	owners       map[string]Team
	tokens       map[tokenHash]*Caller
	certificates map[string]*Caller
	issuers      []Issuer
	subjects     map[Subject]*Caller
	digest       string // SHA-256 of the file, in hex
}

// tokenHash is the SHA-256 of a token. Because tokens are looked up by hash, the time of a look-up reveals nothing about them.
type tokenHash [sha256.Size]byte

// Callers returns the callers in the order of the file.
func (l *List) Callers() []*Caller { return slices.Clone(l.all) }

// Teams returns the teams in the order of the file.
func (l *List) Teams() []Team { return slices.Clone(l.teams) }

// Issuers returns the issuers in the order of the file.
func (l *List) Issuers() []Issuer { return slices.Clone(l.issuers) }

// Owners returns the teams and the callers without a team, sorted.
func (l *List) Owners() []string { return slices.Sorted(maps.Keys(l.owners)) }

// Total returns the budget of all callers together, as a team without a name. A nil list has no budget.
func (l *List) Total() Team {
	if l == nil {
		return Team{}
	}
	return l.total
}

// ByToken returns the caller with this token, or nil.
func (l *List) ByToken(token string) *Caller { return l.tokens[hashOf(token)] }

// ByCertificate returns the caller with a certificate that has these DNS names and URIs, or nil. It also returns nil if the
// names belong to different callers.
func (l *List) ByCertificate(names []string) (found *Caller) {
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

// Dropped returns the owners that a newer list does not have.
func (l *List) Dropped(newer *List) (owners []string) {
	return slices.DeleteFunc(l.Owners(), func(owner string) bool {
		_, kept := newer.owners[owner]
		return kept
	})
}

// Unlimited returns the names of callers without a budget of their own, of their team or of all callers. It omits operators.
func (l *List) Unlimited() (names []string) {
	for _, caller := range l.all {
		if !l.total.isLimited() && !caller.Operator && !caller.Team.isLimited() {
			names = append(names, caller.Name)
		}
	}
	return names
}
