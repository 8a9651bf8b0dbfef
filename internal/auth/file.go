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
	// Issuers verifies the JWTs of the issuers in the file.
	Issuers *Verifier
}

// List returns the callers in effect.
func (c *Callers) List() *List { return c.Known() }

// Weight returns the weight of an owner's requests. Zero, also if c is nil, means the default weight.
func (c *Callers) Weight(owner string) float64 {
	if c == nil {
		return 0
	}
	return c.List().owners[owner].Weight
}

// LoadCallers reads the callers file. Later changes are logged. A changed file is logged but not applied if it is faulty or if
// accept, which may be nil, rejects it. Errors never quote the file.
func LoadCallers(path string, logger *slog.Logger, accept func(inForce, next *List) error) (*Callers, error) {
	var inForce *List
	verifier := NewVerifier(logger)
	parse := func(contents ...[]byte) (*List, error) {
		next, err := Parse(contents[0])
		if err == nil && inForce != nil && accept != nil {
			err = accept(inForce, next)
		}
		if err == nil {
			inForce = next
			verifier.Take(next)
		}
		return next, err
	}
	file, err := reload.Open("callers file", logger, parse, path)
	if err != nil {
		return nil, err
	}
	file.Describe = func(before, after *List) []any {
		return []any{"callers", len(after.all), "callers_before", len(before.all), "digest", after.digest, "digest_before", before.digest}
	}
	if len(file.Known().Callers()) == 0 {
		return nil, fmt.Errorf("%s: names no caller", path)
	}
	return &Callers{file, verifier}, nil
}
