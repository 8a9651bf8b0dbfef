package service

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"

	"github.com/easel-grpc/easel/internal/reload"
)

// Callers knows the services that may use a held API key, by the hashes of their tokens. It is
// read from a file with one caller a line, and read again when the file changes:
//
//	# name      SHA-256 of the token, in hexadecimal
//	billing     sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// Blank lines and lines that begin with # say nothing. A caller may stand on several
// lines, so that a token can be changed without a gap. A file that names nobody any more lets
// nobody in.
type Callers struct {
	list *reload.Value[*callerList]
}

// callerList is what the file says until it changes.
type callerList struct{ all []namedHash }

type namedHash struct {
	name string
	hash [sha256.Size]byte
}

// LoadCallers reads the file. logger hears of later changes, and of those that can't be read.
func LoadCallers(path string, logger *slog.Logger) (*Callers, error) {
	list, err := reload.Open("callers file", logger, parseCallers, path)
	if err != nil {
		return nil, err
	}
	if len(list.Get().all) == 0 {
		return nil, fmt.Errorf("%s: names no caller", path)
	}
	return &Callers{list}, nil
}

// Lookup names the caller with this token.
func (c *Callers) Lookup(token string) (name string, found bool) { return c.list.Get().find(token) }

// find names the caller with this token. Every hash is compared, in constant time.
func (l *callerList) find(token string) (name string, found bool) {
	hash := sha256.Sum256([]byte(token))
	for _, one := range l.all {
		if subtle.ConstantTimeCompare(one.hash[:], hash[:]) == 1 {
			name, found = one.name, true
		}
	}
	return name, found
}

// parseCallers reads the lines of a callers file. Its errors never repeat a line: a token
// may stand there by mistake.
func parseCallers(contents ...[]byte) (*callerList, error) {
	list := &callerList{}
	for number, line := range strings.Split(string(contents[0]), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("line %d: want a name and sha256:<64 hexadecimal digits>", number+1)
		}
		digits, ok := strings.CutPrefix(words[1], "sha256:")
		hash, err := hex.DecodeString(digits)
		if !ok || err != nil || len(hash) != sha256.Size {
			return nil, fmt.Errorf("line %d: the token's hash is not sha256:<64 hexadecimal digits>", number+1)
		}
		list.all = append(list.all, namedHash{words[0], [sha256.Size]byte(hash)})
	}
	return list, nil
}
