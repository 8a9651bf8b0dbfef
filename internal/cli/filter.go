package cli

import (
	"maps"
	"slices"
	"strings"

	easel "github.com/easel-grpc/easel/clients/go"
	"github.com/easel-grpc/easel/internal/terminal"
)

// filterFlags contains the flags that select renders.
type filterFlags struct {
	Model string            `placeholder:"MODEL" help:"Show only renders of this model."`
	Label map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"Show only renders whose order has this label. Repeat the flag to require several labels."`
	Owner string            `placeholder:"OWNER" help:"Show only renders of this owner (for operators)."`
}

// toFilter returns the filter for a list or a watch.
func (f *filterFlags) toFilter() easel.Filter {
	return easel.Filter{Model: f.Model, Labels: f.Label, Owner: f.Owner}
}

func (f *filterFlags) isZero() bool { return f.Model == "" && f.Owner == "" && len(f.Label) == 0 }

// labelsText formats labels for people, sorted by name.
func labelsText(labels map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, terminal.OneLine(name+"="+labels[name]))
	}
	return strings.Join(words, ", ")
}
