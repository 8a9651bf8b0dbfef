package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/terminal"
)

// labelWords are labels as a command line has them, each as name=value.
type labelWords []string

// values are the labels by name. Words that are none are left out: faults tells of them.
func (l labelWords) values() map[string]string {
	all := make(map[string]string, len(l))
	for _, word := range l {
		if name, value, ok := strings.Cut(word, "="); ok {
			all[name] = value
		}
	}
	return all
}

// faults tells the words that are no labels, or that give one name twice.
func (l labelWords) faults() (faults []string) {
	given := map[string]bool{}
	for _, word := range l {
		name, _, ok := strings.Cut(word, "=")
		switch {
		case !ok || name == "":
			faults = append(faults, fmt.Sprintf("--label: %q is not NAME=VALUE", word))
		case given[name]:
			faults = append(faults, fmt.Sprintf("--label: %s is given twice", name))
		}
		given[name] = true
	}
	return faults
}

// labelsText writes labels for people, by name.
func labelsText(labels map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, terminal.OneLine(name+"="+labels[name]))
	}
	return strings.Join(words, ", ")
}
