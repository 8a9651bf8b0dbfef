package auth

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxChanges is the number of changes that [List.Changes] names.
const maxChanges = 100

// Changes returns the changes that a newer list makes to this list, for people: "caller ops added",
// "team studio daily 300 → 900 cents". It contains numbers and truth values, and no other value of the file.
func (l *List) Changes(newer *List) (all []string) {
	for _, name := range union(l.entries, newer.entries) {
		before, existed := l.entries[name]
		after, exists := newer.entries[name]
		switch {
		case !existed:
			all = append(all, name+" added")
		case !exists:
			all = append(all, name+" removed")
		case before.digest != after.digest:
			all = append(all, before.changes(name, after)...)
		}
	}
	if len(all) > maxChanges {
		all = append(all[:maxChanges], fmt.Sprintf("and %d more", len(all)-maxChanges))
	}
	return all
}

// Digest returns the digest of everything in the file, regardless of order and comments.
func (l *List) Digest() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(l.entries)) {
		_, _ = fmt.Fprintf(sum, "%q %x\n", name, l.entries[name].digest) // it never fails
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// digest is the SHA-256 of a part of the file.
type digest [sha256.Size]byte

// entry is one caller or team, or another part of the file that has a name.
type entry struct {
	digest  digest // covers the complete entry, so that no change is missed
	members map[string]member
}

// member is a named value within an entry.
type member struct {
	digest digest
	text   string // value of a number or a truth value; empty for others, which may be secret
}

// changes returns the changes between an entry and a newer one.
func (e entry) changes(name string, newer entry) (all []string) {
	for _, key := range union(e.members, newer.members) {
		before, after := e.members[key], newer.members[key]
		switch {
		case before.digest == after.digest:
		case before.text+after.text == "":
			all = append(all, name+" "+key+" changed")
		default:
			all = append(all, fmt.Sprintf("%s %s %s → %s%s", name, withoutUnit(key), cmp.Or(before.text, "none"), cmp.Or(after.text, "none"), unitOf(key)))
		}
	}
	if len(all) == 0 {
		return []string{name + " changed"}
	}
	return all
}

// unitOf returns the unit at the end of a name such as daily_cents, with a space before it, or "".
func unitOf(key string) string {
	for _, unit := range []string{"cents", "days"} {
		if strings.HasSuffix(key, "_"+unit) {
			return " " + unit
		}
	}
	return ""
}

func withoutUnit(key string) string {
	return strings.TrimSuffix(key, strings.Replace(unitOf(key), " ", "_", 1))
}

// union returns the keys of two maps, sorted.
func union[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// entriesOf returns the entries of a file without faults: in a faulty one an alias may contain itself.
func entriesOf(nodes map[string]*yaml.Node) map[string]entry {
	all := make(map[string]entry, len(nodes))
	for name, n := range nodes {
		e := entry{digestOf(n), map[string]member{}}
		e.add(target(n))
		all[name] = e
	}
	return all
}

// add adds the members of a mapping, and those of mappings within it.
func (e entry) add(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for pair := range slices.Chunk(n.Content, 2) {
		name, value := target(pair[0]).Value, target(pair[1])
		if value.Kind == yaml.MappingNode {
			e.add(value)
			continue
		}
		m := member{digest: digestOf(value)}
		if value.Kind == yaml.ScalarNode && slices.Contains([]string{"!!int", "!!float", "!!bool"}, value.ShortTag()) {
			m.text = value.Value
		}
		e.members[name] = m
	}
}

func digestOf(n *yaml.Node) digest {
	sum := sha256.New()
	addNode(sum, n)
	return digest(sum.Sum(nil))
}

// addNode adds the content of a node, without its form. The order of the members of a mapping has no meaning.
func addNode(sum hash.Hash, n *yaml.Node) {
	if n = target(n); n.Kind == yaml.ScalarNode {
		_, _ = fmt.Fprintf(sum, "%s %q\n", n.ShortTag(), n.Value) // it never fails
		return
	}
	_, _ = fmt.Fprintf(sum, "%d of %d\n", len(n.Content), n.Kind)
	content := n.Content
	if n.Kind == yaml.MappingNode {
		pairs := slices.Collect(slices.Chunk(content, 2))
		slices.SortFunc(pairs, func(a, b []*yaml.Node) int { return cmp.Compare(target(a[0]).Value, target(b[0]).Value) })
		content = slices.Concat(pairs...)
	}
	for _, one := range content {
		addNode(sum, one)
	}
}
