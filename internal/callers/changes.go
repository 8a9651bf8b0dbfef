package callers

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Changes are what a newer callers file changes, by the names of what stands there: "caller ops", "team studio", "total".
type Changes struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// Count is how much is changed.
func (c Changes) Count() int { return len(c.Added) + len(c.Removed) + len(c.Changed) }

// Bounded has no more than so many names of each kind, and says how many others there are.
func (c Changes) Bounded(most int) Changes {
	bound := func(names []string) []string {
		if len(names) <= most {
			return names
		}
		return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", len(names)-most))
	}
	return Changes{bound(c.Added), bound(c.Removed), bound(c.Changed)}
}

// Changes are what a newer list changes of this one.
func (l *List) Changes(newer *List) (c Changes) {
	for _, name := range slices.Sorted(maps.Keys(newer.entries)) {
		before, known := l.entries[name]
		switch {
		case !known:
			c.Added = append(c.Added, name)
		case before != newer.entries[name]:
			c.Changed = append(c.Changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.entries)) {
		if _, kept := newer.entries[name]; !kept {
			c.Removed = append(c.Removed, name)
		}
	}
	return c
}

// Digest is that of all that stands in the file, whatever its order and its comments.
func (l *List) Digest() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(l.entries)) {
		_, _ = fmt.Fprintf(sum, "%q %x\n", name, l.entries[name]) // it never fails
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// entry is the digest of what stands under a name in the file: all of it, so that no change is missed.
type entry [sha256.Size]byte

// entriesOf are those of a file without faults: in another one an alias may stand within itself.
func entriesOf(nodes map[string]*yaml.Node) map[string]entry {
	all := make(map[string]entry, len(nodes))
	for name, n := range nodes {
		sum := sha256.New()
		addNode(sum, n)
		all[name] = entry(sum.Sum(nil))
	}
	return all
}

// addNode adds what a node says, without its form. The order of the members of a mapping says nothing.
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
