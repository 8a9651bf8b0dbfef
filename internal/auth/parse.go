package auth

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// NameRule is what the name of a team or a caller must be.
const NameRule = "1 to 63 letters, digits, dots, dashes and underscores, with a letter or digit first"

// ValidName reports whether a caller may have this name.
func ValidName(name string) bool { return nameForm.MatchString(name) && name != Anonymous }

// mostCents is the largest budget that can be set.
const mostCents = 1_000_000_000_000

var (
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	hashForm   = regexp.MustCompile(`^sha256:[0-9A-Fa-f]{64}$`)
	lineOfYAML = regexp.MustCompile(`line ([0-9]+): `)
)

// Parse reads a callers file. Its error is [Faults]: all of them.
func Parse(text []byte) (*List, error) {
	r := &reader{teams: map[string]Team{}, lines: map[string]int{}, proofs: map[string]int{}, entries: map[string]*yaml.Node{}}
	r.list.owners, r.list.tokens, r.list.certificates, r.list.subjects = map[string]Team{}, map[tokenHash]int{}, map[string]int{}, map[Subject]int{}
	if document := r.document(text); document != nil {
		members := r.members(document, "the file", "total", "issuers", "teams", "callers")
		r.readBudget(members["total"], &r.list.total)
		r.readIssuers(members["issuers"])
		r.readTeams(members["teams"])
		r.readCallers(members["callers"])
		r.disjoint()
		for name, member := range members {
			if name != "teams" && name != "callers" { // whose entries have names of their own
				r.entries[name] = member
			}
		}
		if members["callers"] == nil && document.Kind == yaml.MappingNode {
			r.fault(document, "callers is missing: the list of those who may call")
		}
	}
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
		return nil, r.faults
	}
	r.list.entries = entriesOf(r.entries)
	return &r.list, nil
}

// reader collects what the file says, and what is wrong with it.
type reader struct {
	list   List
	faults Faults
	teams  map[string]Team
	// lines are those of names: "team studio", "caller billing", "alone billing" of a caller without a team.
	lines map[string]int
	// proofs are the lines of tokens, names of certificates and subjects.
	proofs map[string]int
	// entries are the nodes of what the file has under a name: see [List.Changes].
	entries map[string]*yaml.Node
}

func (r *reader) fault(at *yaml.Node, format string, args ...any) {
	r.faults = append(r.faults, Fault{max(1, at.Line), fmt.Sprintf(format, args...)})
}

// document is the root of the one document in the file; nil where there is none.
func (r *reader) document(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		r.fault(&first, "the file is empty: callers is missing")
		return nil
	case err != nil:
		r.syntax(text, err)
		return nil
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		r.fault(&second, "a second document begins here: the file is one")
	case !errors.Is(err, io.EOF):
		r.syntax(text, err)
	}
	return first.Content[0]
}

// syntax tells what the library says. An alias without its anchor is the one fault of which the library
// quotes the file, and names no line.
func (r *reader) syntax(text []byte, err error) {
	problem, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if found := lineOfYAML.FindStringSubmatch(problem); found != nil {
		line, _ = strconv.Atoi(found[1])
		problem = strings.Replace(problem, found[0], "", 1)
	}
	if alias, ok := strings.CutPrefix(problem, "unknown anchor '"); ok {
		before, _, _ := bytes.Cut(text, []byte("*"+strings.TrimSuffix(alias, "' referenced")))
		problem, line = "an alias has no anchor", 1+bytes.Count(before, []byte("\n"))
	}
	r.fault(&yaml.Node{Line: line}, "this is no YAML: %s", problem)
}

// pairs are the names and values of a mapping. Each name stands once.
func (r *reader) pairs(n *yaml.Node, what string) (pairs [][2]*yaml.Node) {
	if n = target(n); n.Kind != yaml.MappingNode {
		r.fault(n, "%s must be a mapping, with lines of the form name: value", what)
		return nil
	}
	lines := map[string]int{}
	for pair := range slices.Chunk(n.Content, 2) {
		name := target(pair[0])
		if line, twice := lines[name.Value]; twice {
			r.fault(pair[0], "this name stands in line %d already", line)
		}
		lines[name.Value] = name.Line
		pairs = append(pairs, [2]*yaml.Node(pair))
	}
	return pairs
}

// members are the values of a mapping whose names are known.
func (r *reader) members(n *yaml.Node, what string, known ...string) map[string]*yaml.Node {
	all := map[string]*yaml.Node{}
	for _, pair := range r.pairs(n, what) {
		name, isText := r.text(pair[0], "a name")
		switch {
		case isText && slices.Contains(known, name):
			all[name] = pair[1]
		case isText:
			r.fault(pair[0], "%s has no member of this name; it may have %s", what, strings.Join(known, ", "))
		}
	}
	return all
}

// items are those of a list; none where n is nil.
func (r *reader) items(n *yaml.Node, what string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n = target(n); n.Kind != yaml.SequenceNode {
		r.fault(n, "%s must be a list", what)
		return nil
	}
	return n.Content
}

// text is the text of a node.
func (r *reader) text(n *yaml.Node, what string) (text string, ok bool) {
	if n = target(n); n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		r.fault(n, "%s must be text; quotes make text of anything", what)
		return "", false
	}
	return n.Value, true
}

// name is a name of a team or a caller.
func (r *reader) name(n *yaml.Node, what string) (name string, ok bool) {
	name, ok = r.text(n, what)
	if ok && !nameForm.MatchString(name) {
		r.fault(n, "%s must be %s", what, NameRule)
		return "", false
	}
	return name, ok
}

// decodes decodes a scalar of one of the types into a value, and reports whether it could.
func decodes(n *yaml.Node, into any, types ...string) bool {
	n = target(n)
	return n.Kind == yaml.ScalarNode && slices.Contains(types, n.ShortTag()) && n.Decode(into) == nil
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (r *reader) readTeams(n *yaml.Node) {
	if n == nil {
		return
	}
	for _, pair := range r.pairs(n, "teams") {
		name, ok := r.name(pair[0], "the name of a team")
		team := r.readTeam(pair[1])
		if ok {
			team.Name = name
			r.teams[name], r.lines["team "+name] = team, pair[0].Line
			r.list.teams = append(r.list.teams, team)
			r.list.owners[name] = team
			r.entries["team "+name] = pair[1]
		}
	}
}

func (r *reader) readTeam(n *yaml.Node) (team Team) {
	members := r.members(n, "a team", "weight", "budget", "models", "retention_days", "keep_deleted", "events")
	team.Weight, team.RetentionDays = r.weight(members["weight"]), r.days(members["retention_days"])
	team.KeepDeleted = r.truth(members["keep_deleted"], "keep_deleted")
	r.readBudget(members["budget"], &team)
	if models := members["models"]; models != nil {
		team.Models = []string{}
		for _, item := range r.items(models, "models") {
			if pattern, ok := r.text(item, "a pattern of models"); ok {
				team.Models = append(team.Models, pattern)
				r.checkPattern(item, pattern)
			}
		}
	}
	if events := members["events"]; events != nil {
		team.Events = r.readEvents(events)
	}
	return team
}

// readBudget reads a budget; none where n is nil.
func (r *reader) readBudget(n *yaml.Node, of *Team) {
	if n != nil {
		limits := r.members(n, "a budget", "daily_cents", "monthly_cents")
		of.DailyCents, of.MonthlyCents = r.cents(limits["daily_cents"]), r.cents(limits["monthly_cents"])
	}
}

// readEvents reads where a team is told of events.
func (r *reader) readEvents(n *yaml.Node) *Events {
	members := r.members(n, "events", "url", "secret_file")
	if target(n).Kind != yaml.MappingNode {
		return nil
	}
	for _, name := range []string{"url", "secret_file"} {
		if members[name] == nil {
			r.fault(n, "events must have %s", name)
			return nil
		}
	}
	address, isText := r.text(members["url"], "url")
	if isText && !addressForm.MatchString(address) {
		r.fault(members["url"], "url must be https://…, or http://… on this machine, without a user and a fragment")
	} else if _, err := url.Parse(address); err != nil { // an error that repeats the address
		r.fault(members["url"], "url can't be read: a %% in its path must begin an escape such as %%20, and brackets must hold an IPv6 address")
	}
	file, isText := r.text(members["secret_file"], "secret_file")
	if isText && file == "" {
		r.fault(members["secret_file"], "secret_file must name a file")
	}
	return &Events{URL: address, SecretFile: file, Line: members["secret_file"].Line}
}

// cents is an amount of money; nil where n is nil.
func (r *reader) cents(n *yaml.Node) *int64 {
	if n == nil {
		return nil
	}
	var cents int64
	if !decodes(n, &cents, "!!int") || cents < 0 || cents > mostCents {
		r.fault(n, "a budget must be a whole number of cents, from 0 to %d", mostCents)
		return nil
	}
	return &cents
}

// The bounds of a weight.
const (
	leastWeight = 0.01
	mostWeight  = 100
)

// weight is that of a team; 0 where n is nil.
func (r *reader) weight(n *yaml.Node) float64 {
	if n == nil {
		return 0
	}
	var weight float64
	if !decodes(n, &weight, "!!int", "!!float") || !(weight >= leastWeight && weight <= mostWeight) {
		r.fault(n, "a weight must be a number from %v to %v", leastWeight, mostWeight)
		return 0
	}
	return weight
}

// mostDays is the longest retention.
const mostDays = 36_500

// days is a number of days; 0 where n is nil.
func (r *reader) days(n *yaml.Node) (days int) {
	if n == nil {
		return 0
	}
	if !decodes(n, &days, "!!int") || days < 1 || days > mostDays {
		r.fault(n, "retention_days must be a whole number of days, from 1 to %d", mostDays)
		return 0
	}
	return days
}

// truth returns the truth value of a member, or false if n is nil.
func (r *reader) truth(n *yaml.Node, what string) (truth bool) {
	if n != nil && !decodes(n, &truth, "!!bool") {
		r.fault(n, "%s must be true or false", what)
	}
	return truth
}

func (r *reader) checkPattern(at *yaml.Node, pattern string) {
	if _, err := path.Match(strings.TrimSuffix(pattern, "/**"), ""); pattern == "" || err != nil {
		r.fault(at, "this is no pattern of models: * stands for anything but a slash, ? for one character, [a-z] for one of these, /** at the end for the rest")
	}
}

func (r *reader) readCallers(n *yaml.Node) {
	for _, item := range r.items(n, "callers") {
		r.readCaller(item)
	}
}

func (r *reader) readCaller(n *yaml.Node) {
	members := r.members(n, "a caller", "name", "team", "budget", "operator", "tokens", "certificates", "subjects", "issuer")
	caller := Caller{Operator: r.truth(members["operator"], "operator")}
	if at := members["name"]; at != nil {
		caller.Name = r.callerName(at)
	} else if target(n).Kind == yaml.MappingNode {
		r.fault(n, "a caller must have a name")
	}
	if at := members["team"]; at != nil {
		caller.Team = r.team(at)
		if budget := members["budget"]; budget != nil {
			r.fault(budget, "a caller with a team has the budget of its team, and none of its own")
		}
	} else {
		r.readBudget(members["budget"], &caller.Team)
		r.lines["alone "+caller.Name] = n.Line
	}
	r.list.all = append(r.list.all, caller)
	r.entries["caller "+caller.Name] = n
	r.list.owners[caller.Owner()] = caller.Team
	for _, item := range r.items(members["tokens"], "tokens") {
		r.readToken(item)
	}
	for _, item := range r.items(members["certificates"], "certificates") {
		r.readCertificate(item)
	}
	r.readSubjects(members, n)
}

func (r *reader) callerName(at *yaml.Node) string {
	name, ok := r.name(at, "the name of a caller")
	line, twice := r.lines["caller "+name]
	switch {
	case !ok:
	case twice:
		r.fault(at, "the caller in line %d has this name already", line)
	case name == Anonymous:
		r.fault(at, "%s is how callers without any proof are called, and no name", Anonymous)
	default:
		r.lines["caller "+name] = at.Line
	}
	return name
}

// team is the team that a caller names.
func (r *reader) team(at *yaml.Node) Team {
	name, ok := r.name(at, "the name of a team")
	team, found := r.teams[name]
	if ok && !found {
		r.fault(at, "there is no such team: teams must have it")
	}
	return team
}

// readToken reads the hash of a token of the last caller.
func (r *reader) readToken(at *yaml.Node) {
	text, ok := r.text(at, "a token")
	switch {
	case !ok:
	case !hashForm.MatchString(text):
		r.fault(at, "a token must be its hash, sha256:<64 hexadecimal digits>: easel callers token NAME makes one")
	case r.proves(at, strings.ToLower(text), "token"):
		hash, _ := hex.DecodeString(text[len("sha256:"):])
		r.list.tokens[tokenHash(hash)] = len(r.list.all) - 1
	}
}

// readCertificate reads the name in a certificate of the last caller.
func (r *reader) readCertificate(at *yaml.Node) {
	text, ok := r.text(at, "the name of a certificate")
	key := certificateKey(text)
	switch {
	case !ok:
	case !isVisible(text):
		r.fault(at, "the name of a certificate must be a DNS name or URI, without spaces")
	case r.proves(at, "certificate "+key, "certificate"):
		r.list.certificates[key] = len(r.list.all) - 1
	}
}

// proves notes the one place of a token or a certificate: it proves the name of one caller.
func (r *reader) proves(at *yaml.Node, key, what string) bool {
	if line, twice := r.proofs[key]; twice {
		r.fault(at, "this %s stands in line %d already, and must be one caller's", what, line)
		return false
	}
	r.proofs[key] = at.Line
	return true
}

// disjoint checks that no caller without a team is called like a team: both are owners.
func (r *reader) disjoint() {
	for name := range r.teams {
		if line, alone := r.lines["alone "+name]; alone {
			r.fault(&yaml.Node{Line: line}, "the team in line %d has the name of this caller, which has no team; each is an owner of orders", r.lines["team "+name])
		}
	}
}
