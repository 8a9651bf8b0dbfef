// Package auth reads the callers file, which lists the callers that may use a shared API key: the name of each, how
// it proves that name, its team, and what the team may order and spend.
package auth

import (
	"crypto/sha256"
	"path"
	"slices"
	"strings"
)

// Anonymous is how a caller without any proof of its name is called. Nobody in the file is called so.
const Anonymous = "anonymous"

// Team is a team of callers: what it may spend and order. The zero value has no limit.
type Team struct {
	// Name is the owner of the team's orders; "" for a caller without a team.
	Name string
	// Weight is its part of what the catalog takes, beside those of other owners; 0 is 1, as for a caller without a team.
	Weight float64
	// DailyCents and MonthlyCents are its budget; nil is no limit.
	DailyCents, MonthlyCents *int64
	// Models are patterns of the models that the team may list, read, quote and order. Nil means every model.
	Models []string
	// RetentionDays is after how many days what names content of its settled orders is erased; 0 is never.
	RetentionDays int
	// KeepDeleted means that the copy of a result stays which the team deletes.
	KeepDeleted bool
	// Events says where the team is told of events; nil where it is not.
	Events *Events
}

// Events is where a team is told of events.
type Events struct {
	// URL is the address of its receiver, and SecretFile the file with the secrets that sign.
	URL, SecretFile string
	// Line is where the file is named.
	Line int
}

// Allows reports whether the team may use a model.
func (t Team) Allows(model string) bool {
	return t.Models == nil || slices.ContainsFunc(t.Models, func(pattern string) bool { return matches(pattern, model) })
}

// matches reports whether a pattern, which has been checked, matches a model: as [path.Match] does, and /** at
// the end matches whatever follows the slash.
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

// Caller is a service that may use the held API key.
type Caller struct {
	Name string
	// Team is its team. Where it has none, it has no name, and may have a budget of the caller's own.
	Team Team
	// Operator is whether it sees every owner's orders.
	Operator bool
}

// Owner is whom its orders belong to: its team, or the caller itself where it has none.
func (c Caller) Owner() string {
	if c.Team.Name != "" {
		return c.Team.Name
	}
	return c.Name
}

// List is what a callers file says.
type List struct {
	total        Team // which has a budget alone
	all          []Caller
	teams        []Team
	owners       map[string]Team
	tokens       map[tokenHash]int
	certificates map[string]int
	issuers      []Issuer
	subjects     map[Subject]int
	entries      map[string]entry // what stands there, by names such as "caller ops"
}

// tokenHash is the SHA-256 of a token.
type tokenHash [sha256.Size]byte

// Callers are those in the file, in its order.
func (l *List) Callers() []Caller { return slices.Clone(l.all) }

// Teams are those in the file, in its order.
func (l *List) Teams() []Team { return slices.Clone(l.teams) }

// Total is what all together may spend: a team with a budget alone. A nil list has none.
func (l *List) Total() Team {
	if l == nil {
		return Team{}
	}
	return l.total
}

// ByToken returns the caller with this token, or nil.
func (l *List) ByToken(token string) *Caller { return l.byHash(hashOf(token)) }

// byHash returns the caller with the token of a hash, or nil. The time of a look-up by a hash reveals nothing about other tokens.
func (l *List) byHash(hash tokenHash) *Caller { return at(l.all, l.tokens, hash) }

// ByCertificate returns the caller with a certificate that has these DNS names and URIs, or nil. If they name two callers, they
// name none.
func (l *List) ByCertificate(names []string) (found *Caller) {
	for _, name := range names {
		caller := at(l.all, l.certificates, certificateKey(name))
		if caller != nil && found != nil && caller.Name != found.Name {
			return nil
		}
		if caller != nil {
			found = caller
		}
	}
	return found
}

// BySubject returns the caller that is a subject of an issuer, or nil.
func (l *List) BySubject(subject Subject) *Caller { return at(l.all, l.subjects, subject) }

// at returns the caller that an index has under a key, or nil.
func at[K comparable](all []Caller, index map[K]int, key K) *Caller {
	if n, found := index[key]; found {
		return &all[n]
	}
	return nil
}

// Issuers are those in the file, in its order.
func (l *List) Issuers() []Issuer { return slices.Clone(l.issuers) }

// HasIssuer reports whether an issuer stands in a list, which may be nil, as it is: its line does not count.
func (l *List) HasIssuer(issuer Issuer) bool {
	issuer.Line = 0
	return l != nil && slices.ContainsFunc(l.issuers, func(one Issuer) bool {
		one.Line = 0
		return one == issuer
	})
}

// HasSecretFile reports whether a team of a list, which may be nil, has this file of secrets.
func (l *List) HasSecretFile(name string) bool {
	return l != nil && slices.ContainsFunc(l.teams, func(team Team) bool { return team.Events != nil && team.Events.SecretFile == name })
}

// HasIssuers reports whether there are any.
func (l *List) HasIssuers() bool { return len(l.issuers) > 0 }

// certificateKey is a name as it is compared: a DNS name in any case, a URI as it is.
func certificateKey(name string) string {
	if strings.Contains(name, ":") {
		return name
	}
	return strings.ToLower(name)
}

// Team gives the team whose orders belong to an owner; one without a name where the owner is a caller. A nil list has none.
func (l *List) Team(owner string) Team {
	if l == nil {
		return Team{}
	}
	return l.owners[owner]
}

// Dropped are the owners of this list that a newer one does not have.
func (l *List) Dropped(newer *List) (owners []string) {
	return slices.DeleteFunc(l.Owners(), func(owner string) bool {
		_, kept := newer.owners[owner]
		return kept
	})
}

// Unlimited returns the names of the callers that no budget limits: of their own, of their team or of all. Operators are
// not among them.
func (l *List) Unlimited() (names []string) {
	if l.total.limited() {
		return nil
	}
	for _, caller := range l.all {
		if !caller.Operator && !caller.Team.limited() {
			names = append(names, caller.Name)
		}
	}
	return names
}

func (t Team) limited() bool { return t.DailyCents != nil || t.MonthlyCents != nil }

// Owners are the teams, and the callers without one.
func (l *List) Owners() []string {
	var all []string
	for _, team := range l.teams {
		all = append(all, team.Name)
	}
	for _, caller := range l.all {
		if caller.Team.Name == "" {
			all = append(all, caller.Name)
		}
	}
	return all
}
