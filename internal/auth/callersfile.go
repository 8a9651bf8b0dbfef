package auth

import (
	"fmt"
	"log/slog"

	"github.com/easel-grpc/easel/internal/reload"
)

// Callers holds the contents of the callers file in memory. Only Reload rereads the file. If a changed file lists no callers, no
// credential is accepted.
type Callers struct {
	*reload.Value[*List]
	logger *slog.Logger
}

// List returns the current contents of the file, or nil if c is nil.
func (c *Callers) List() *List {
	if c == nil {
		return nil
	}
	return c.Known()
}

// Weight returns the weight of an owner's requests. Zero means the default weight. It returns zero if c is nil.
func (c *Callers) Weight(owner string) float64 {
	if c == nil {
		return 0
	}
	return c.List().owners[owner].Weight
}

// LoadCallers reads the callers file. If applied is not nil, LoadCallers calls it with the first list, and with each later list
// that is valid. Each change is logged. If a changed file is invalid, the error is logged and the previous list is kept. Errors
// never quote the file.
func LoadCallers(path string, logger *slog.Logger, applied func(*List)) (*Callers, error) {
	current := &List{}
	parse := func(contents ...[]byte) (*List, error) {
		next, err := Parse(contents[0])
		if err != nil {
			return nil, err
		}
		next.keepKeys(current)
		current = next
		if applied != nil {
			applied(next)
		}
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
		return nil, fmt.Errorf("%s: the file lists no callers; add at least one", path)
	}
	return &Callers{file, logger}, nil
}
