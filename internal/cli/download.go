package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	easel "github.com/easel-grpc/easel/clients/go"
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

func (c *downloadCmd) Faults() []string { return c.faultsOfOut(c.Out) }

// Run writes the result to a file.
func (c *downloadCmd) Run(ctx context.Context, s *session) error {
	wait := c.Wait
	if wait == 0 {
		wait = -1
	}
	file, err := s.download(ctx, c.ID, c.Out, easel.FetchOptions{Wait: wait, Keep: !c.Force})
	if noFile := (*easel.NoContentError)(nil); errors.As(err, &noFile) && noFile.Metadata["state"] != easelv1.State_STATE_FAILED.String() {
		file, err = c.text(ctx, s, err)
	}
	if err == nil && c.Out != standardOutput {
		s.printSaved(file)
	}
	return err
}

// text writes the text of a generation that has no file, and gives the error that says so where it has no text either.
func (c *downloadCmd) text(ctx context.Context, s *session, noFile error) (saved, error) {
	answer, err := s.Generations.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: c.ID, MaxStaleness: &durationpb.Duration{}})
	if err != nil {
		return saved{}, err
	}
	if answer.GetGeneration().GetText() == nil {
		return saved{}, noFile
	}
	return s.result(ctx, answer.GetGeneration(), c.Out, c.Force)
}

// saved is a result that has become a file.
type saved struct {
	Path        string `json:"path"`
	ContentType string `json:"contentType"`
	SizeBytes   int64  `json:"sizeBytes"`
	SHA256      string `json:"sha256"`
	Source      string `json:"source,omitempty"`
}

func (s *session) printSaved(result saved) {
	switch {
	case s.json:
		s.Print(jsonLine(result))
	case s.quiet:
		s.Print(result.Path)
	default:
		s.Fields([][2]string{
			{"file", result.Path},
			{"type", terminal.OneLine(result.ContentType)},
			{"size", formatBytes(result.SizeBytes)},
			{"sha256", result.SHA256},
			{"from", result.Source},
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

// result puts the result of a finished generation where out says, its text or its file.
func (s *session) result(ctx context.Context, g *easelv1.Generation, out string, force bool) (saved, error) {
	switch {
	case g.GetText() == nil:
		return s.download(ctx, g.GenerationId, out, easel.FetchOptions{Keep: !force})
	case out == standardOutput:
		return saved{}, s.Copy(strings.NewReader(endedLine(g.GetText().Text)))
	}
	return writeText(out, force, g)
}

// download downloads a file to out. What goes to standard output goes there from a file that is whole and checked, so that
// what reads it never gets damaged bytes.
func (s *session) download(ctx context.Context, id, out string, options easel.FetchOptions) (saved, error) {
	if out != standardOutput {
		return s.fetch(ctx, id, out, options)
	}
	dir, err := os.MkdirTemp("", "easel-*")
	if err != nil {
		return saved{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system clears up there too
	result, err := s.fetch(ctx, id, filepath.Join(dir, "result"), options)
	if err != nil {
		return result, err
	}
	file, err := os.Open(result.Path)
	if err != nil {
		return result, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return result, s.Copy(file)
}

// fetch downloads a file to a path or into a directory, and draws how far it is.
func (s *session) fetch(ctx context.Context, id, path string, options easel.FetchOptions) (saved, error) {
	if options.Keep && path != "" && !isDir(path) { // else the name is not known yet
		if err := mayWrite(path); err != nil {
			return saved{}, err
		}
	}
	var now progress
	started := time.Now()
	options.Progress = func(done, all int64) { now.done.Store(done); now.all.Store(all) }
	defer s.ticking(func() { s.ShowLive(now.line(s.ErrStyle, s.BarWidth(), time.Since(started))) })()
	defer s.onRetry("DownloadGeneration", id, func(r easel.Retry) {
		s.aside("the download broke off (" + messageOf(r.Err) + "), going on in " + formatDuration(r.Delay))
	})()
	content, err := s.Fetch(ctx, id, path, options)
	if there := (&fs.PathError{Path: path}); errors.Is(err, fs.ErrExist) {
		_ = errors.As(err, &there) // it names the file
		return saved{}, isThere(there.Path)
	}
	if err != nil {
		return saved{}, err
	}
	return saved{content.Path, content.ContentType, content.SizeBytes, content.SHA256, content.Source}, nil
}

// progress is how far a download is. It is written by the download and read by the live line.
type progress struct{ done, all atomic.Int64 }

// line is the live line of a download, with a bar of so many letters.
func (p *progress) line(look terminal.Style, bar int, elapsed time.Duration) string {
	done, all, rate := p.done.Load(), p.all.Load(), ""
	if elapsed > 100*time.Millisecond {
		rate = "  " + formatBytes(int64(float64(done)/elapsed.Seconds())) + "/s"
	}
	switch {
	case done == 0:
		return "waiting for the first byte" + look.Paint(terminal.Dim, "  "+formatDuration(elapsed))
	case all == 0:
		return "downloading " + formatBytes(done) + look.Paint(terminal.Dim, rate)
	}
	return look.Bar(float64(done)/float64(all), bar) + " " + formatBytes(done) + " of " + formatBytes(all) + look.Paint(terminal.Dim, rate)
}

// isDir reports whether a path is a directory, or is written as one.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return os.IsPathSeparator(path[len(path)-1]) || err == nil && info.IsDir()
}

// mayWrite refuses a target that is there already.
func mayWrite(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return isThere(path)
	}
	return nil
}

func isThere(path string) error {
	return &Problem{Exit: ExitUsage, Text: path + " is there already", Cure: "--force overwrites it."}
}

// mayReceive tells why a result could not be put at out, before anything is paid for it.
// Only a trial shows whether a directory takes files: who may write is not all that counts.
func mayReceive(out string, force bool) error {
	dir := out
	if !isDir(out) {
		if err := mayWrite(out); err != nil && !force {
			return err
		}
		if info, err := os.Stat(out); err == nil && !info.Mode().IsRegular() {
			return badUsage("--out "+out+": "+easel.ErrNotRegular.Error(), "Name a file or a directory, or - for standard output.")
		}
		dir = filepath.Dir(out)
	}
	trial, err := os.CreateTemp(dir, ".easel-*.part")
	if err != nil {
		cure := ""
		if _, missing := os.Stat(dir); errors.Is(missing, fs.ErrNotExist) {
			cure = "Make the directory first: mkdir -p " + terminal.ShellQuote(filepath.Clean(dir))
		}
		return badUsage("--out "+out+": no file can be made there: "+reasonOf(err), cure)
	}
	return errors.Join(trial.Close(), os.Remove(trial.Name()))
}

// reasonOf is what the system says of a file, without the name of a file that nobody has asked for.
func reasonOf(err error) string {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// writeText writes the text of a text model as a file. With force it takes the place of what is there, and follows no link.
func writeText(out string, force bool, g *easelv1.Generation) (saved, error) {
	path, text := out, endedLine(g.GetText().Text)
	if out == "" || isDir(out) {
		name := filepath.Base(filepath.Clean("/" + g.GenerationId + ".txt"))
		if name != g.GenerationId+".txt" || strings.HasPrefix(name, ".") || terminal.Sanitize(name) != name {
			return saved{}, &Problem{Exit: ExitFailure, Text: fmt.Sprintf("the render %q makes an unsafe file name", g.GenerationId), Cure: "Name the file with --out."}
		}
		path = filepath.Join(out, name)
	}
	err := easel.WriteFile(path, []byte(text), !force)
	if errors.Is(err, fs.ErrExist) {
		return saved{}, isThere(path)
	}
	sum := sha256.Sum256([]byte(text))
	return saved{path, "text/plain; charset=utf-8", int64(len(text)), hex.EncodeToString(sum[:]), ""}, err
}

// endedLine ends a text as a file of text ends.
func endedLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
