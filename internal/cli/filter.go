package cli

import (
	"maps"
	"slices"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// filterFlags choose renders by what does not change.
type filterFlags struct {
	Model string     `placeholder:"MODEL" help:"Only renders of this model."`
	Label labelWords `sep:"none" placeholder:"NAME=VALUE" help:"Only renders whose order has this label. Give it again for another one that they must have too."`
	Owner string     `placeholder:"OWNER" help:"Only renders of this owner. For operators."`
}

// filter is that of a request; nil chooses every render.
func (f *filterFlags) filter() *easelv1.GenerationFilter {
	if f.Model == "" && f.Owner == "" && len(f.Label) == 0 {
		return nil
	}
	return &easelv1.GenerationFilter{ModelId: f.Model, Owner: f.Owner, Labels: f.Label.values()}
}

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
