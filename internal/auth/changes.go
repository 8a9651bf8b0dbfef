package auth

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxChanges is the number of changes that [List.Changes] names.
const maxChanges = 100

// entry is a named part of the file, such as a caller or a team. It maps the names of members to their values as JSON.
type entry map[string]string

// Changes returns the changes that a newer list makes to this list, for people: "caller ops added",
// "team studio daily_cents 300 → 900". Apart from names, the only values in it are numbers and booleans.
func (l *List) Changes(newer *List) (all []string) {
	for _, name := range union(l.entries, newer.entries) {
		before, after := l.entries[name], newer.entries[name]
		switch {
		case before == nil:
			all = append(all, name+" added")
		case after == nil:
			all = append(all, name+" removed")
		default:
			all = append(all, before.changes(name, after)...)
		}
	}
	if len(all) > maxChanges {
		all = append(all[:maxChanges], fmt.Sprintf("and %d more", len(all)-maxChanges))
	}
	return all
}

// changes returns the changes between an entry and a newer one.
func (e entry) changes(name string, newer entry) (all []string) {
	for _, key := range union(e, newer) {
		before, after := e[key], newer[key]
		switch {
		case before == after:
		case strings.ContainsAny(before+after, `"[{`):
			all = append(all, strings.TrimSpace(name+" "+key)+" changed")
		default:
			all = append(all, fmt.Sprintf("%s %s %s → %s", name, key, cmp.Or(before, "none"), cmp.Or(after, "none")))
		}
	}
	return all
}

// Digest returns a digest of the contents of the file. The order of entries and comments do not change it.
func (l *List) Digest() string {
	text, _ := json.Marshal(l.entries) // cannot fail for strings
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// entriesOf returns the entries of a file without faults. In a faulty file, an alias may contain itself and never end.
func entriesOf(nodes map[string]*yaml.Node) map[string]entry {
	all := make(map[string]entry, len(nodes))
	for name, n := range nodes {
		all[name] = entry{}
		all[name].add("", n)
	}
	return all
}

// add adds a value under its name. For a mapping it adds the members, also of nested mappings.
func (e entry) add(name string, n *yaml.Node) {
	if n = target(n); n.Kind == yaml.MappingNode {
		for pair := range slices.Chunk(n.Content, 2) {
			e.add(target(pair[0]).Value, pair[1])
		}
		return
	}
	var value any
	_ = n.Decode(&value)           // cannot fail for the values of a file without faults
	text, _ := json.Marshal(value) // as above
	e[name] = string(text)
}

// union returns the keys of two maps, sorted.
func union[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
