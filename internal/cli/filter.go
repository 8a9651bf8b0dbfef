package cli

import (
	"maps"
	"slices"

	easel "github.com/easel-grpc/easel/clients/go"
)

// filterFlags choose renders by what does not change.
type filterFlags struct {
	Model string     `placeholder:"MODEL" help:"Only renders of this model."`
	Label labelWords `sep:"none" placeholder:"NAME=VALUE" help:"Only renders whose order has this label. Give it again for another one that they must have too."`
	Owner string     `placeholder:"OWNER" help:"Only renders of this owner. For operators."`
}

// filter is that of a watch.
func (f *filterFlags) filter() easel.Filter {
	return easel.Filter{Model: f.Model, Labels: f.Label.values(), Owner: f.Owner}
}

func (f *filterFlags) isZero() bool { return f.Model == "" && f.Owner == "" && len(f.Label) == 0 }

// words are the flags as a command line has them.
func (f *filterFlags) words() (words []string) {
	if f.Model != "" {
		words = append(words, "--model", f.Model)
	}
	labels := f.Label.values()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, "--label", name+"="+labels[name])
	}
	if f.Owner != "" {
		words = append(words, "--owner", f.Owner)
	}
	return words
}
