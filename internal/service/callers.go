package service

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// Callers knows the services that may use a held key, by the hashes of their tokens. It is
// read from a file with one caller a line, and read again when the file changes:
//
//	# name      SHA-256 of the token, in hexadecimal
//	billing     sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// Blank lines and lines that begin with # say nothing. A caller may stand on several
// lines, so that a token can be changed without a gap.
type Callers struct {
	path   string
	logger *slog.Logger

	mu      sync.Mutex
	list    []namedHash
	stamp   fileStamp
	checked time.Time
	broken  bool // the last look failed, and that has been logged
}

type namedHash struct {
	name string
	hash [sha256.Size]byte
}

// fileStamp tells whether a file has changed.
type fileStamp struct {
	modified time.Time
	size     int64
}

// LoadCallers reads the file. logger hears of later changes that can't be read.
func LoadCallers(path string, logger *slog.Logger) (*Callers, error) {
	c := &Callers{path: path, logger: logger}
	if err := c.read(); err != nil {
		return nil, err
	}
	if len(c.list) == 0 {
		return nil, fmt.Errorf("%s: names no caller", path)
	}
	c.checked = time.Now()
	return c, nil
}

// Lookup names the caller with this token. Every hash is compared, in constant time.
func (c *Callers) Lookup(token string) (string, bool) {
	hash := sha256.Sum256([]byte(token))
	name, found := "", 0
	for _, one := range c.current() {
		if subtle.ConstantTimeCompare(one.hash[:], hash[:]) == 1 {
			name, found = one.name, 1
		}
	}
	return name, found == 1
}

// current gives the list, read again where the file has changed; it looks at most once a
// second. While the file can't be read, the old list stays; a file that names nobody lets
// nobody in.
func (c *Callers) current() []namedHash {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) >= time.Second {
		c.checked = time.Now()
		err := c.read()
		if err != nil && !c.broken {
			c.logger.Error("the callers file can't be read; the old list stays", "error", err)
		}
		c.broken = err != nil
	}
	return c.list
}

func (c *Callers) read() error {
	info, err := os.Stat(c.path)
	if err != nil {
		return err
	}
	stamp := fileStamp{info.ModTime(), info.Size()}
	if stamp == c.stamp {
		return nil
	}
	text, err := os.ReadFile(c.path)
	if err != nil {
		return err
	}
	list, err := parseCallers(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	c.list, c.stamp = list, stamp
	return nil
}

// parseCallers reads the lines of a callers file. Its errors never repeat a line: a token
// may stand there by mistake.
func parseCallers(text string) ([]namedHash, error) {
	var list []namedHash
	for number, line := range strings.Split(text, "\n") {
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
		list = append(list, namedHash{words[0], [sha256.Size]byte(hash)})
	}
	return list, nil
}
