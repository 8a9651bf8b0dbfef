package auth

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// NameRule is the form of the name of a team or a caller.
const NameRule = "1 to 63 letters, digits, dots, dashes and underscores, with a letter or digit first, and not " + Anonymous

// ValidName reports whether a team or a caller may have this name.
func ValidName(name string) bool { return nameForm.MatchString(name) && name != Anonymous }

const (
	maxCents             = 1_000_000_000_000
	minWeight, maxWeight = 0.01, 100
	maxRetentionDays     = 36_500
	maxVisible           = 2048 // characters of the name of an issuer, a subject or a certificate
)

var (
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	hashForm    = regexp.MustCompile(`^sha256:[0-9A-Fa-f]{64}$`)
	visibleForm = regexp.MustCompile(`^[!-~]+$`)
	addressForm = regexp.MustCompile(`^(https://([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])|http://(localhost|127\.0\.0\.1|\[::1\]))(:[0-9]{1,5})?([/?][!"$-~]*)?$`)

	anyText = form{"be text", func(string) bool { return true }}
	named   = form{"be " + NameRule, ValidName}
	hashed  = form{"be its hash, sha256:<64 hexadecimal digits>: easel callers token NAME makes one", hashForm.MatchString}
	visible = form{fmt.Sprintf("be text of 1 to %d visible ASCII characters, without spaces", maxVisible), isVisible}
	dnsName = form{"be a DNS name or URI, without spaces", isVisible}
	file    = form{"name a file", func(name string) bool { return name != "" }}
	address = form{"be https://…, or http://… on this machine, without a user and a fragment; % must begin an escape such as %20", isAddress}
	pattern = form{"consist of text, * for anything but a slash, ? for one character, [a-z] for one of these, /** at the end for the rest", isPattern}
)

func isVisible(text string) bool { return visibleForm.MatchString(text) && len(text) <= maxVisible }

func isAddress(text string) bool {
	_, err := url.Parse(text)
	return err == nil && addressForm.MatchString(text)
}

func isPattern(text string) bool {
	_, err := path.Match(strings.TrimSuffix(text, "/**"), "")
	return err == nil && text != ""
}

// parser reads a callers file into a list.
type parser struct {
	document
	list *List
}

// Parse reads a callers file. Its error is [Faults], with every fault of the file.
func Parse(text []byte) (*List, error) {
	p := &parser{document{lines: map[string]int{}}, &List{
		owners: map[string]Team{}, tokens: map[tokenHash]*Caller{}, certificates: map[string]*Caller{}, subjects: map[Subject]*Caller{},
		digest: fmt.Sprintf("%x", sha256.Sum256(text)),
	}}
	if root := p.root(text); root != nil {
		p.mapping(root, "the file",
			member{"total", p.budget(&p.list.total), false}, member{"issuers", p.items("issuers", p.issuer), false},
			member{"teams", p.teams, false}, member{"callers", p.items("callers", p.caller), true})
	}
	if len(p.faults) > 0 {
		slices.SortStableFunc(p.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
		return nil, p.faults
	}
	return p.list, nil
}

func (p *parser) budget(of *Team) func(*yaml.Node) {
	cents := func(name string, into **int64) member {
		rule := fmt.Sprintf("%s must be a whole number of cents, from 0 to %d", name, int64(maxCents))
		return member{name, scalar(&p.document, into, rule, func(c *int64) bool { return *c >= 0 && *c <= maxCents }, "!!int"), false}
	}
	return func(n *yaml.Node) {
		p.mapping(n, "a budget", cents("daily_cents", &of.DailyCents), cents("monthly_cents", &of.MonthlyCents))
	}
}

func (p *parser) issuer(n *yaml.Node) {
	i := Issuer{Line: n.Line}
	p.mapping(n, "an issuer",
		member{"issuer", p.text(&i.Name, "issuer", visible), true}, member{"audience", p.text(&i.Audience, "audience", visible), true},
		member{"jwks_file", p.text(&i.KeysFile, "jwks_file", file), false}, member{"jwks_url", p.text(&i.KeysURL, "jwks_url", address), false},
		member{"ca_file", p.text(&i.CAFile, "ca_file", file), false}, member{"token_file", p.text(&i.TokenFile, "token_file", file), false})
	if target(n).Kind == yaml.MappingNode && (i.KeysFile == "") == (i.KeysURL == "") {
		p.fault(n, "an issuer must have jwks_file or jwks_url, and not both")
	}
	if i.KeysURL == "" && i.CAFile+i.TokenFile != "" {
		p.fault(n, "ca_file and token_file need jwks_url")
	}
	if i.Name != "" && p.once(n, "issuer", i.Name) {
		p.list.issuers = append(p.list.issuers, i)
	}
}

func (p *parser) teams(n *yaml.Node) {
	pairs, _ := p.pairs(n, "teams")
	for _, pair := range pairs {
		var team Team
		p.text(&team.Name, "the name of a team", named)(pair[0])
		p.team(&team)(pair[1])
		p.lines["team "+team.Name] = pair[0].Line
		p.list.teams, p.list.owners[team.Name] = append(p.list.teams, team), team
	}
}

func (p *parser) team(team *Team) func(*yaml.Node) {
	isWeight := func(w float64) bool { return w >= minWeight && w <= maxWeight }
	isDays := func(days int) bool { return days >= 1 && days <= maxRetentionDays }
	models := p.texts("models", "a pattern of models", pattern, func(_ *yaml.Node, text string) { team.Models = append(team.Models, text) })
	return func(n *yaml.Node) {
		p.mapping(n, "a team",
			member{"weight", scalar(&p.document, &team.Weight, fmt.Sprintf("a weight must be a number from %v to %v", minWeight, maxWeight), isWeight, "!!int", "!!float"), false},
			member{"budget", p.budget(team), false},
			member{"models", func(n *yaml.Node) { team.Models = []string{}; models(n) }, false},
			member{"retention_days", scalar(&p.document, &team.RetentionDays, fmt.Sprintf("retention_days must be a whole number of days, from 1 to %d", maxRetentionDays), isDays, "!!int"), false},
			member{"keep_deleted", p.truth(&team.KeepDeleted, "keep_deleted"), false},
			member{"events", p.events(team), false})
	}
}

func (p *parser) truth(into *bool, what string) func(*yaml.Node) {
	return scalar(&p.document, into, what+" must be true or false", func(bool) bool { return true }, "!!bool")
}

func (p *parser) events(of *Team) func(*yaml.Node) {
	return func(n *yaml.Node) {
		of.Events = &Events{}
		secrets := p.text(&of.Events.SecretFile, "secret_file", file)
		p.mapping(n, "events", member{"url", p.text(&of.Events.URL, "url", address), true},
			member{"secret_file", func(n *yaml.Node) { of.Events.Line = n.Line; secrets(n) }, true})
	}
}

func (p *parser) caller(n *yaml.Node) {
	c, issuer := &Caller{}, ""
	p.mapping(n, "a caller",
		member{"name", p.text(&c.Name, "the name of a caller", named), true},
		member{"team", func(n *yaml.Node) { p.teamOf(n, c) }, false},
		member{"budget", func(n *yaml.Node) { p.budgetOf(n, c) }, false},
		member{"operator", p.truth(&c.Operator, "operator"), false},
		member{"tokens", p.texts("tokens", "a token", hashed, func(at *yaml.Node, text string) { p.token(at, c, strings.ToLower(text)) }), false},
		member{"certificates", p.texts("certificates", "the name of a certificate", dnsName, func(at *yaml.Node, text string) { p.certificate(at, c, certificateKey(text)) }), false},
		member{"issuer", func(n *yaml.Node) { p.issuerOf(n, &issuer) }, false},
		member{"subjects", p.texts("subjects", "a subject", visible, func(at *yaml.Node, text string) { p.subject(at, c, issuer, text) }), false})
	if c.Name == "" || !p.once(n, "caller", c.Name) {
		return
	}
	p.list.all, p.list.owners[c.Owner()] = append(p.list.all, c), c.Team
	if line, isTeam := p.lines["team "+c.Name]; isTeam && c.Team.Name == "" {
		p.fault(n, "the team in line %d has the name of this caller, which has no team; owners of orders need different names", line)
	}
}

func (p *parser) teamOf(n *yaml.Node, c *Caller) {
	name, ok := p.textOf(n, "the name of a team", named)
	team, found := p.list.owners[name]
	if ok && !found {
		p.fault(n, "there is no such team; add it to teams")
	}
	c.Team = team
	c.Team.Name = name
}

func (p *parser) budgetOf(n *yaml.Node, c *Caller) {
	if c.Team.Name != "" {
		p.fault(n, "a caller with a team has the budget of its team; remove the budget of the caller")
		return
	}
	p.budget(&c.Team)(n)
}

func (p *parser) token(at *yaml.Node, c *Caller, hash string) {
	if p.once(at, "token", hash) {
		sum, _ := hex.DecodeString(hash[len("sha256:"):]) // cannot fail for a hash of this form
		p.list.tokens[tokenHash(sum)] = c
	}
}

func (p *parser) certificate(at *yaml.Node, c *Caller, key string) {
	if p.once(at, "certificate", key) {
		p.list.certificates[key] = c
	}
}

func (p *parser) issuerOf(n *yaml.Node, name *string) {
	text, ok := p.textOf(n, "issuer", visible)
	if _, known := p.lines["issuer "+text]; ok && !known {
		p.fault(n, "there is no such issuer; add it to issuers")
	}
	*name = text
}

// subject adds a subject of a caller. Its issuer is the only issuer, or the issuer that the caller names.
func (p *parser) subject(at *yaml.Node, c *Caller, issuer, name string) {
	if issuer == "" && len(p.list.issuers) == 1 {
		issuer = p.list.issuers[0].Name
	}
	if issuer == "" {
		p.fault(at, "subjects need an issuer; add one to issuers, and if there are several, set the issuer of the caller")
	} else if p.once(at, "subject", issuer+" "+name) {
		p.list.subjects[Subject{issuer, name}] = c
	}
}
