package auth

import (
	"fmt"
	"log/slog"

	"github.com/easel-grpc/easel/internal/reload"
)

// Callers has the current contents of the callers file. Only Reload reads the file again, not a call. If the file has no
// callers, no credential is accepted.
type Callers struct {
	*reload.Value[*List]
	logger *slog.Logger
}

// List returns the callers in effect, or nil if c is nil.
func (c *Callers) List() *List {
	if c == nil {
		return nil
	}
	return c.Known()
}

// Weight returns the weight of an owner's requests. Zero, also if c is nil, means the default weight.
func (c *Callers) Weight(owner string) float64 {
	if c == nil {
		return 0
	}
	return c.List().owners[owner].Weight
}

// LoadCallers reads the callers file. Later changes are logged. A changed file is logged but not applied if it is faulty or if
// accept, which may be nil, rejects it. At first, the current list is empty. Errors never quote the file.
func LoadCallers(path string, logger *slog.Logger, accept func(inForce, next *List) error) (*Callers, error) {
	inForce := &List{}
	parse := func(contents ...[]byte) (*List, error) {
		next, err := Parse(contents[0])
		if err == nil && accept != nil {
			err = accept(inForce, next)
		}
		if err != nil {
			return nil, err
		}
		next.keepKeys(inForce)
		inForce = next
		return next, nil
	}
	file, err := reload.Open("callers file", logger, parse, path)
	if err != nil {
		return nil, err
	}
	file.Describe = func(before, after *List) []any {
		return []any{"callers", len(after.Callers), "callers_before", len(before.Callers), "digest", after.digest, "digest_before", before.digest}
	}
	if len(file.Known().Callers) == 0 {
		return nil, fmt.Errorf("%s: names no caller", path)
	}
	return &Callers{file, logger}, nil
}
