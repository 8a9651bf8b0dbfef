package auth

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parser builds the list of callers from a callers file.
type parser struct {
	root yaml.Node
	file struct { // the members are described in deploy/callers.schema.json
		Total   total
		Issuers []*Issuer
		Teams   map[string]Team
		Callers []caller
	}
	list   *List
	names  map[string]*Caller
	faults Faults
}

// total is the budget that all callers share, with the receiver of events about this budget.
type total struct {
	Budget `yaml:",inline"`
	Events *Events
}

// labelName matches a valid label name. The contract has the same rule.
var labelName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,62}$`)

// caller is the entry for one caller in the callers file.
type caller struct {
	Name, Team, Issuer             string
	Budget                         Budget
	Operator                       bool
	Tokens, Certificates, Subjects []string
}

// Parse parses a callers file. It checks the YAML syntax first, and then whether the values match the schema. Finally, it
// checks for repeated names and credentials, unknown teams and issuers, and invalid label names. Its error has type [Faults],
// and lists the faults from the first of these checks that fails.
func Parse(text []byte) (*List, error) {
	p := &parser{names: map[string]*Caller{}, list: &List{
		Issuers: map[string]*Issuer{}, Teams: map[string]Team{},
		owners: map[string]Team{}, tokens: map[tokenHash]*Caller{}, certificates: map[string]*Caller{}, subjects: map[Subject]*Caller{},
		digest: fmt.Sprintf("%x", sha256.Sum256(text)),
	}}
	if err := p.decodeFile(text); err != nil {
		p.addFaults(err)
	} else {
		p.fillList()
	}
	if len(p.faults) > 0 {
		slices.SortFunc(p.faults, func(a, b Fault) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text)) })
		return nil, p.faults
	}
	return p.list, nil
}

// decodeFile decodes and validates the file. Its error is a [*jsonschema.ValidationError] or comes from the YAML library.
func (p *parser) decodeFile(text []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	err := decoder.Decode(&p.root)
	if err == nil {
		var second yaml.Node
		if err = decoder.Decode(&second); err == nil {
			return fmt.Errorf("line %d: a second document starts here; remove it", second.Line)
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	var value any
	if err := p.root.Decode(&value); err != nil {
		return err
	}
	if err := schema().Validate(value); err != nil {
		return err
	}
	return p.root.Decode(&p.file)
}

// fillList builds the list from the decoded file. It adds faults for repeated or unknown names, repeated credentials, and
// invalid label names.
func (p *parser) fillList() {
	p.list.Total.Budget, p.list.Total.Events = p.file.Total.Budget, p.file.Total.Events
	for n, issuer := range p.file.Issuers {
		if p.list.Issuers[issuer.Name] != nil {
			p.addFault(fmt.Sprintf("issuers/%d/issuer", n), "this issuer is listed twice; remove one of the two")
		}
		issuer.keys = &keys{}
		issuer.keys.known.Store(&knownKeys{})
		p.list.Issuers[issuer.Name] = issuer
	}
	for name, team := range p.file.Teams {
		team.Name = name
		p.checkLabels(team)
		p.list.Teams[name], p.list.owners[name] = team, team
	}
	for n, entry := range p.file.Callers {
		p.addCaller(fmt.Sprintf("callers/%d/", n), entry)
	}
}

// checkLabels adds a fault for each label budget whose label name is invalid.
func (p *parser) checkLabels(team Team) {
	for name := range team.Labels.Budgets {
		if !labelName.MatchString(name) {
			p.addFault("teams/"+team.Name+"/labels/budgets/"+name, "invalid label name; use up to 63 lower-case letters, digits, '_', '.' and '-', with a letter first")
		}
	}
}

func (p *parser) addCaller(path string, entry caller) {
	c := &Caller{Name: entry.Name, Operator: entry.Operator, Team: Team{Budget: entry.Budget}}
	team, isTeam := p.list.Teams[cmp.Or(entry.Team, entry.Name)]
	switch {
	case entry.Team != "" && isTeam:
		c.Team = team
	case entry.Team != "":
		p.addFault(path+"team", "unknown team; add it to teams")
	case isTeam:
		p.addFault(path+"name", "a team has this name, so the caller and the team would be the same owner; set the caller's team, or rename the caller")
	}
	claimKey(p, p.names, c.Name, c, path+"name")
	p.list.Callers, p.list.owners[c.Owner()] = append(p.list.Callers, c), c.Team
	p.addCredentials(path, entry, c)
}

func (p *parser) addCredentials(path string, entry caller, c *Caller) {
	for n, text := range entry.Tokens {
		_, digits, _ := strings.Cut(text, ":")
		sum, _ := hex.DecodeString(digits) // cannot fail, because the schema requires 64 hexadecimal digits
		claimKey(p, p.list.tokens, tokenHash(sum), c, fmt.Sprintf("%stokens/%d", path, n))
	}
	for n, name := range entry.Certificates {
		claimKey(p, p.list.certificates, certificateKey(name), c, fmt.Sprintf("%scertificates/%d", path, n))
	}
	issuer := entry.Issuer
	if issuer == "" && len(p.file.Issuers) == 1 {
		issuer = p.file.Issuers[0].Name
	}
	if (entry.Issuer != "" || len(entry.Subjects) > 0) && p.list.Issuers[issuer] == nil {
		p.addFault(path+"subjects", "unknown issuer of subjects; add one to issuers, and if issuers has several entries, set the caller's issuer")
	}
	for n, name := range entry.Subjects {
		claimKey(p, p.list.subjects, Subject{issuer, name}, c, fmt.Sprintf("%ssubjects/%d", path, n))
	}
}

// claimKey assigns key, which is a name or a credential, to the caller c. If a caller already has the key, claimKey adds a
// fault at path in the file.
func claimKey[K comparable](p *parser, callers map[K]*Caller, key K, c *Caller, path string) {
	if callers[key] != nil {
		p.addFault(path, "this %s is listed twice; remove one of the two", strings.TrimSuffix(strings.Split(path, "/")[2], "s"))
	}
	callers[key] = c
}
