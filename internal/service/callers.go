package service

import (
	"crypto/sha256"
	"fmt"
	"log/slog"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/reload"
)

// Callers knows the services that may use a held API key. The callers file is read again by Reload, and never for a call. A
// file that names nobody any more lets nobody in.
type Callers struct {
	*reload.Value[*auth.List]
	// Issuers verifies the tokens of the issuers in the file.
	Issuers *auth.Verifier
}

// List gives the callers in force.
func (c *Callers) List() *auth.List { return c.Known() }

// Weight is the part of an owner in what the catalog takes; 0, which is the usual one, without a callers file.
func (c *Callers) Weight(owner string) float64 {
	if c == nil {
		return 0
	}
	return c.List().Team(owner).Weight
}

// LoadCallers reads the callers file. logger hears of later changes, and of those that can't be taken over:
// the file is broken, or accept, which may be nil, refuses it. Its errors never repeat the file.
func LoadCallers(path string, logger *slog.Logger, accept func(inForce, next *auth.List) error) (*Callers, error) {
	var inForce *auth.List
	var last parsed
	verifier := auth.NewVerifier(logger)
	parse := func(contents ...[]byte) (*auth.List, error) {
		next, err := last.parse(contents[0])
		if err == nil && inForce != nil && accept != nil {
			err = accept(inForce, next)
		}
		if err == nil {
			inForce = next
			verifier.Take(next)
		}
		return next, err
	}
	list, err := reload.Open("callers file", logger, parse, path)
	if err != nil {
		return nil, err
	}
	list.Describe = func(before, after *auth.List) []any {
		return []any{"changes", before.Changes(after), "digest", after.Digest()}
	}
	if len(list.Known().Callers()) == 0 {
		return nil, fmt.Errorf("%s: names no caller", path)
	}
	return &Callers{list, verifier}, nil
}

// parsed is the last callers file that was parsed. One that can't be taken over is tried again each second, and parsed once.
type parsed struct {
	sum  [sha256.Size]byte
	list *auth.List
	err  error
}

func (p *parsed) parse(text []byte) (*auth.List, error) {
	if sum := sha256.Sum256(text); sum != p.sum {
		p.sum = sum
		p.list, p.err = auth.Parse(text)
	}
	return p.list, p.err
}
