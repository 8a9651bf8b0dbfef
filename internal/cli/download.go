package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type downloadCmd struct {
	callFlags
	ID    string        `arg:"" name:"id" help:"The render."`
	Out   string        `placeholder:"FILE|DIR|-" help:"Where to write it; - is standard output. Without it the file gets a name from the server, here."`
	Force bool          `help:"Overwrite a file."`
	Wait  time.Duration `placeholder:"TIME" help:"How long to wait for a render that is not finished, up to 10m."`
}

// Help implements kong.HelpProvider.
func (*downloadCmd) Help() string {
	return `A file that is there is whole and checked. Run again after an interruption, it goes on where it was.

Examples:

  easel download gen_1
  easel download gen_1 --wait 10m --out pictures/
  easel download gen_1 --out - | display
`
}

func (c *downloadCmd) Faults() []string { return c.faultsOfOut(c.Out) }

// Run writes the result to a file. Run again after an interruption, it goes on where it
// was.
func (c *downloadCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, unlimited, func(ctx context.Context, s *session) error {
		result, err := c.save(ctx, s)
		if perhapsText(err) {
			result, err = c.saveText(ctx, s, err)
		}
		if err == nil && c.Out != standardOutput {
			s.printSaved(result)
		}
		return err
	})
}

// save writes the bytes of a result. What goes to standard output becomes no file.
func (c *downloadCmd) save(ctx context.Context, s *session) (saved, error) {
	d := &transfer{id: c.ID, out: c.Out, force: c.Force, wait: c.Wait}
	if c.Out == standardOutput {
		return saved{}, s.transferToStdout(ctx, d)
	}
	path, err := s.transfer(ctx, d)
	if err != nil {
		return saved{}, err
	}
	return saved{path, d.info.ContentType, d.part.size, d.part.sha256()}, nil
}

// saveText writes the text of a generation that has no file, and gives the error that says so
// where it has no text either.
func (c *downloadCmd) saveText(ctx context.Context, s *session, noFile error) (saved, error) {
	answer, err := retryRead(ctx, s, func() (*easelv1.GetGenerationResponse, error) {
		return s.generations.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: c.ID, MaxStaleness: span(0)})
	})
	g := answer.GetGeneration()
	switch {
	case err != nil:
		return saved{}, err
	case g.GetText() == nil:
		return saved{}, noFile
	case c.Out == standardOutput:
		return saved{}, s.writeTextToStdout(g)
	}
	return writeText(c.Out, c.Force, g)
}

// perhapsText reports whether a generation has no file although it did not fail: then its result
// is a text.
func perhapsText(err error) bool {
	f := detailsOf(err)
	state := f.metadata["state"]
	return reasonNamed(f.reason) == easelv1.ErrorReason_NO_CONTENT && (state == "" || state == easelv1.State_STATE_SUCCEEDED.String())
}

// saved is a result that has become a file.
type saved struct {
	Path        string `json:"path"`
	ContentType string `json:"contentType"`
	SizeBytes   int64  `json:"sizeBytes"`
	SHA256      string `json:"sha256"`
}

func (s *session) printSaved(result saved) {
	switch {
	case s.json:
		s.Print(jsonLine(result))
	case s.quiet:
		s.Print(result.Path)
	default:
		s.printFields([][2]string{
			{"file", result.Path},
			{"type", terminal.OneLine(result.ContentType)},
			{"size", formatBytes(result.SizeBytes)},
			{"sha256", result.SHA256},
		})
	}
}

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

// transferToStdout downloads a result and writes it to standard output. It goes there from a
// file that is whole and checked, so that what reads it never gets damaged bytes.
func (s *session) transferToStdout(ctx context.Context, d *transfer) error {
	dir, err := os.MkdirTemp("", "easel-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system clears up there too
	d.out, d.silent, d.temporary = filepath.Join(dir, "result"), true, true
	path, err := s.transfer(ctx, d)
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

// writeTextToStdout writes the text of a text model to standard output.
func (s *session) writeTextToStdout(g *easelv1.Generation) error {
	return s.Copy(strings.NewReader(endedLine(g.GetText().Text)))
}
