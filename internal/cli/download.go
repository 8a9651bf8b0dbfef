package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type downloadCmd struct {
	callFlags
	ID    string        `arg:"" name:"id" help:"ID of the render."`
	Out   string        `placeholder:"FILE|DIR|-" help:"File or directory for the result; - is standard output. Default: a file in the current directory, with a name from the server."`
	Force bool          `help:"Overwrite an existing file."`
	Wait  time.Duration `placeholder:"TIME" help:"Maximum time to wait for a render that is not finished, up to 10m."`
}

// Faults returns a message for each invalid flag or combination of flags.
func (c *downloadCmd) Faults() []string { return c.faultsOfOut(c.Out) }

// Run downloads the result to a file or to standard output.
func (c *downloadCmd) Run(ctx context.Context, s *session) error {
	file, err := s.downloadTo(ctx, c.ID, c.Out, easel.FetchOptions{Wait: cmp.Or(c.Wait, -1), Keep: !c.Force})
	if errors.As(err, new(*easel.NoContentError)) { // Fetch also fails with this error if the result is a text, which is part of the generation itself
		request := &easelv1.GetGenerationRequest{GenerationId: c.ID, MaxStaleness: &durationpb.Duration{}}
		if response, failure := s.Generations.GetGeneration(ctx, request); failure != nil {
			err = failure
		} else if response.GetGeneration().GetText() != nil {
			file, err = s.writeResult(ctx, response.GetGeneration(), c.Out, c.Force)
		}
	}
	if err == nil && c.Out != standardOutput {
		s.printSaved(file)
	}
	return err
}

// saved describes a result that was written to a file.
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
			{"file", result.Path}, {"type", terminal.OneLine(result.ContentType)}, {"size", formatBytes(result.SizeBytes)}, {"sha256", result.SHA256}, {"from", result.Source},
		})
	}
}

// standardOutput is the value of --out for standard output.
const standardOutput = "-"

// faultsOfOut returns a message for each invalid flag or combination of flags of a command that has --out.
func (c *callFlags) faultsOfOut(out string) []string {
	faults := FaultList(c.Faults())
	faults.Require(out != standardOutput || c.Output != "json", "--out - and --output json both need standard output")
	return faults
}

// writeResult writes a finished generation's text or file to outPath.
func (s *session) writeResult(ctx context.Context, g *easelv1.Generation, outPath string, mayReplace bool) (saved, error) {
	switch {
	case g.GetText() == nil:
		return s.downloadTo(ctx, g.GenerationId, outPath, easel.FetchOptions{Keep: !mayReplace})
	case outPath == standardOutput:
		return saved{}, s.Copy(strings.NewReader(endedLine(g.GetText().Text)))
	}
	return writeText(outPath, mayReplace, g)
}

// downloadTo downloads a generation's file to outPath. For standard output, it first downloads to a temporary file and
// verifies its checksum, so that a reader never gets corrupt bytes.
func (s *session) downloadTo(ctx context.Context, id, outPath string, options easel.FetchOptions) (saved, error) {
	if outPath != standardOutput {
		return s.fetchFile(ctx, id, outPath, options)
	}
	dir, err := os.MkdirTemp("", "easel-*")
	if err != nil {
		return saved{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // if this fails, the system removes the directory later
	result, err := s.fetchFile(ctx, id, filepath.Join(dir, "result"), options)
	if err != nil {
		return result, err
	}
	file, err := os.Open(result.Path)
	if err != nil {
		return result, err
	}
	defer func() { _ = file.Close() }() // closing a file that was only read loses no data
	return result, s.Copy(file)
}

// fetchFile downloads a generation's file to path, which may be a directory, and shows the progress.
func (s *session) fetchFile(ctx context.Context, id, path string, options easel.FetchOptions) (saved, error) {
	if options.Keep && path != "" && !isDir(path) { // if path is a directory, the file's name comes from the server and is not known yet
		if _, err := os.Lstat(path); err == nil {
			return saved{}, exists(path)
		}
	}
	options.Progress = func(done, all int64) {
		s.recordResponse()
		text := formatBytes(done)
		if all > 0 {
			text += " of " + formatBytes(all)
		}
		s.setProgress(text)
	}
	defer s.ShowLive("")
	content, err := s.Fetch(ctx, id, path, options)
	if there := (&fs.PathError{Path: path}); errors.Is(err, fs.ErrExist) {
		_ = errors.As(err, &there) // if err contains no PathError, there.Path is still path
		return saved{}, exists(there.Path)
	}
	if err != nil {
		return saved{}, err
	}
	return saved{content.Path, content.ContentType, content.SizeBytes, content.SHA256, content.Source}, nil
}

// isDir reports whether a path names a directory or ends with a separator.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return os.IsPathSeparator(path[len(path)-1]) || err == nil && info.IsDir()
}

func exists(path string) error {
	return badUsage(path+" exists", "--force overwrites it.")
}

// checkWritable returns an error if a result can't be written to outPath. It is called before the order is placed. It creates
// a temporary file and removes it again, because a check of permissions would not detect, for example, a read-only file
// system.
func checkWritable(outPath string, mayReplace bool) error {
	dir := outPath
	if !isDir(outPath) {
		if _, err := os.Lstat(outPath); err == nil && !mayReplace {
			return exists(outPath)
		}
		if info, err := os.Stat(outPath); err == nil && !info.Mode().IsRegular() {
			return badUsage("--out "+outPath+": "+easel.ErrNotRegular.Error(), "Name a file or a directory, or - for standard output.")
		}
		dir = filepath.Dir(outPath)
	}
	trial, err := os.CreateTemp(dir, ".easel-*.part")
	if err == nil {
		return errors.Join(trial.Close(), os.Remove(trial.Name()))
	}
	cure := ""
	if _, missing := os.Stat(dir); errors.Is(missing, fs.ErrNotExist) {
		cure = "Create the directory first: mkdir -p " + terminal.ShellQuote(filepath.Clean(dir))
	}
	return badUsage("--out "+outPath+": no file can be created there: "+reasonOf(err), cure)
}

// reasonOf returns the message of a file error, without the operation and the file's name.
func reasonOf(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// writeText writes a text model's result to the file outPath, and ends it with a line break. If outPath is empty or a
// directory, the file's name is the generation ID followed by ".txt". An existing file is replaced only if mayReplace is
// true. Symbolic links are not followed.
func writeText(outPath string, mayReplace bool, g *easelv1.Generation) (saved, error) {
	path, text := outPath, endedLine(g.GetText().Text)
	if outPath == "" || isDir(outPath) {
		name := g.GenerationId + ".txt"
		if name != filepath.Base(filepath.Clean("/"+name)) || strings.HasPrefix(name, ".") || terminal.Sanitize(name) != name {
			return saved{}, &Problem{Exit: ExitFailure, Text: fmt.Sprintf("the render ID %q is not a safe file name", g.GenerationId), Cure: "Name the file with --out."}
		}
		path = filepath.Join(outPath, name)
	}
	err := easel.WriteFile(path, []byte(text), !mayReplace)
	if errors.Is(err, fs.ErrExist) {
		return saved{}, exists(path)
	}
	sum := sha256.Sum256([]byte(text))
	return saved{path, "text/plain; charset=utf-8", int64(len(text)), hex.EncodeToString(sum[:]), ""}, err
}

// endedLine adds a line break to a text that does not end with one. An empty text stays empty.
func endedLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
