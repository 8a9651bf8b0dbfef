package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// standardOutput is what --out calls standard output.
const standardOutput = "-"

// faultsOfOut tells that two results would go to one stream.
func (c *callFlags) faultsOfOut(out string) []string {
	faults := c.Faults()
	if out == standardOutput && c.Output == "json" {
		faults = append(faults, "--out - and --output json both want standard output")
	}
	return faults
}

// fetchOut downloads a result and writes it to standard output. It goes there from a
// file that is whole and checked, so that what reads it never gets damaged bytes.
func (s *session) fetchOut(ctx context.Context, d *fetching) error {
	dir, err := os.MkdirTemp("", "easel-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system clears up there too
	d.out, d.silent, d.fleeting = filepath.Join(dir, "result"), true, true
	path, err := s.fetch(ctx, d)
	if err != nil {
		return err
	}
	file, err := os.Open(path) //nolint:gosec // it has just been written
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	return s.Copy(file)
}

// pourText writes the text of a text model to standard output.
func (s *session) pourText(g *easelv1.Generation) error {
	return s.Copy(strings.NewReader(wholeLines(g.GetText().Text)))
}
