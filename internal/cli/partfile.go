package cli

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// targetPath is the file to write: out itself, or a file of the suggested name in it
// where out is a directory or nothing.
func targetPath(out, suggested string) (string, error) {
	if out != "" && !isDir(out) {
		return out, nil
	}
	// The server promises a safe name; what it must not be able to do is checked all the same.
	name := filepath.Base(filepath.Clean("/" + strings.ReplaceAll(suggested, `\`, "/")))
	if name != suggested || strings.HasPrefix(name, ".") || terminal.Sanitize(name) != name {
		return "", &Problem{
			Exit: ExitFailure, Text: fmt.Sprintf("the server suggests the unsafe file name %q", suggested),
			Cure: "Name the file with --out.",
		}
	}
	return filepath.Join(out, name), nil
}

// isDir reports whether a path is a directory, or is written as one.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return os.IsPathSeparator(path[len(path)-1]) || err == nil && info.IsDir()
}

// mayWrite refuses a target that is there already.
func mayWrite(path string, force bool) error {
	if _, err := os.Lstat(path); err == nil && !force {
		return badUsage(path+" is there already", "--force overwrites it.")
	}
	return nil
}

// mayReceive tells why a result could not be put at out, before anything is paid for it.
// Only a trial shows whether a directory takes files: who may write is not all that counts.
func mayReceive(out string, force bool) error {
	dir := out
	if !isDir(out) {
		if err := mayWrite(out, force); err != nil {
			return err
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

// partFile is a file in the making, beside its target. It gets the target's name only
// when it is whole; until then nobody can take it for the result.
type partFile struct {
	file *os.File
	kept string    // name under which a part waits for the next run; "" where it can't be resumed
	sum  hash.Hash // of what is in the file
	size int64
}

// openPart opens a new part, or takes over the one that an earlier run has kept. Taking
// over is a rename: of two runs at once only one gets it. A run that was killed leaves
// no kept part, so that what is resumed has been closed properly.
func openPart(target, identity string) (*partFile, error) {
	dir, base := filepath.Split(target)
	p := &partFile{sum: sha256.New()}
	work := filepath.Join(dir, "."+base+"."+rand.Text()[:10]+".part")
	if identity != "" {
		digest := sha256.Sum256([]byte(identity))
		p.kept = filepath.Join(dir, "."+base+"."+hex.EncodeToString(digest[:6])+".part")
		if os.Rename(p.kept, work) == nil {
			if kept, err := os.Lstat(work); err == nil && kept.Mode().IsRegular() {
				return p, p.takeOver(work, kept)
			}
			_ = os.Remove(work) // a link that somebody has put there
		}
	}
	var err error
	p.file, err = os.OpenFile(work, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666) //nolint:gosec // the user says where, and the umask who may read
	return p, err
}

// takeOver reads what is there already, because the checksum covers the whole. Kept is what the name led to: nobody has
// put a link there since.
func (p *partFile) takeOver(work string, kept fs.FileInfo) (err error) {
	if p.file, err = os.OpenFile(work, os.O_RDWR, 0); err != nil { //nolint:gosec // as above
		return err
	}
	opened, err := p.file.Stat()
	if err == nil && !os.SameFile(kept, opened) {
		err = fmt.Errorf("%s was exchanged", work)
	}
	if err == nil {
		p.size, err = io.Copy(p.sum, p.file)
	}
	if err != nil {
		p.discard()
	}
	return err
}

// Write appends bytes.
func (p *partFile) Write(data []byte) (int, error) {
	n, err := p.file.Write(data)
	p.sum.Write(data[:n])
	p.size += int64(n)
	return n, err
}

// restart throws away what is there.
func (p *partFile) restart() error {
	p.sum.Reset()
	p.size = 0
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.file.Truncate(0)
}

func (p *partFile) sha256() string { return hex.EncodeToString(p.sum.Sum(nil)) }

// keep leaves the part for the next run, and reports whether there is anything to keep.
func (p *partFile) keep() bool {
	if p.kept == "" || p.size == 0 || p.file.Sync() != nil {
		p.discard()
		return false
	}
	return p.file.Close() == nil && os.Rename(p.file.Name(), p.kept) == nil
}

func (p *partFile) discard() {
	_ = p.file.Close() // it is not wanted any more, whatever became of it
	_ = os.Remove(p.file.Name())
}

// finish gives the whole file its name. Without force an existing file is never
// replaced, even where it has appeared in the meantime.
func (p *partFile) finish(target string, force bool) error {
	if err := errors.Join(p.file.Sync(), p.file.Close()); err != nil {
		return err
	}
	name := p.file.Name()
	if force {
		defer syncDir(target)
		return os.Rename(name, target)
	}
	err := os.Link(name, target) // fails where the target exists; rename would not
	switch {
	case errors.Is(err, fs.ErrExist):
		return mayWrite(target, false)
	case err != nil: // a file system without links
		if err = mayWrite(target, false); err == nil {
			err = os.Rename(name, target)
		}
	default:
		err = os.Remove(name)
	}
	syncDir(target)
	return err
}

// syncDir makes the new name survive a power cut. Not every system can do it to a
// directory, and the bytes are safe without.
func syncDir(target string) {
	if dir, err := os.Open(filepath.Dir(target)); err == nil {
		_ = errors.Join(dir.Sync(), dir.Close())
	}
}

// writeText writes the text of a text model as a file, as whole as a download.
func writeText(out string, force bool, g *easelv1.Generation) (saved, error) {
	path, err := textPath(out, g)
	if err == nil {
		err = mayWrite(path, force)
	}
	if err != nil {
		return saved{}, err
	}
	part, err := openPart(path, "")
	if err != nil {
		return saved{}, err
	}
	if _, err = io.WriteString(part, endedLine(g.GetText().Text)); err == nil {
		err = part.finish(path, force)
	}
	if err != nil {
		part.discard()
		return saved{}, err
	}
	return saved{path, "text/plain; charset=utf-8", part.size, part.sha256()}, nil
}

// textPath is the file for the text of a generation.
func textPath(out string, g *easelv1.Generation) (string, error) {
	return targetPath(out, terminal.OneLine(g.GenerationId)+".txt")
}

// endedLine ends a text as a file of text ends.
func endedLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
