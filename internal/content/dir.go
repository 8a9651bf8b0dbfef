package content

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"regexp"
	"strings"
	"time"
)

// dir is a store in a directory, for replicas that share it too.
type dir struct{ root *os.Root }

// partSuffix ends the name of a file that is being written.
const partSuffix = ".part"

// partForm is the form of such a name: [dir.Put] has a word of [rand.Text] in it.
var partForm = regexp.MustCompile(`\.[A-Z2-7]{26}\.part$`)

func openDir(name string) (Store, error) {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("EASEL_CONTENT_URL: %w", err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("EASEL_CONTENT_URL: %w", err)
	}
	return dir{root}, nil
}

// Put implements [Store]. A file has its name when it is whole and on the disk.
func (d dir) Put(ctx context.Context, name string, body io.Reader, size int64) (err error) {
	if err := d.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	part := name + "." + rand.Text() + partSuffix
	file, err := d.root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.root.Remove(part) // [dir.Clean] does where this can't
		}
	}()
	written, err := io.CopyBuffer(onlyWriter{file}, bounded{ctx, body}, make([]byte, blockSize))
	if err == nil && size >= 0 && written != size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = d.root.Rename(part, name)
	}
	if err == nil {
		err = d.sync(path.Dir(name))
	}
	return err
}

// onlyWriter is a writer that [io.CopyBuffer] passes buffers to.
type onlyWriter struct{ io.Writer }

// bounded reads until a context ends.
type bounded struct {
	ctx  context.Context //nolint:containedctx // of one copy
	body io.Reader
}

// Read implements [io.Reader].
func (b bounded) Read(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		return 0, err
	}
	return b.body.Read(p)
}

// sync has the names of a directory on the disk.
func (d dir) sync(name string) error {
	at, err := d.root.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }() // nothing was written to it
	return at.Sync()
}

// Get implements [Store].
func (d dir) Get(_ context.Context, name string, offset int64) (io.ReadCloser, error) {
	file, err := d.root.Open(name)
	if err != nil {
		return nil, absent(err)
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		_ = file.Close() // the first error says more
		return nil, err
	}
	return file, nil
}

// Size implements [Store].
func (d dir) Size(_ context.Context, name string) (int64, error) {
	info, err := d.root.Stat(name)
	if err != nil {
		return 0, absent(err)
	}
	return info.Size(), nil
}

// Delete implements [Store].
func (d dir) Delete(_ context.Context, name string) error {
	if err := absent(d.root.Remove(name)); err != nil && !errors.Is(err, ErrAbsent) {
		return err
	}
	return nil
}

func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrAbsent
	}
	return err
}

// List implements [Store].
func (d dir) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return d.walk(ctx, path.Dir(prefix), func(name string) bool { return strings.HasPrefix(name, prefix) && !strings.HasSuffix(name, partSuffix) })
}

// walk gives the files below a directory that are chosen.
func (d dir) walk(ctx context.Context, below string, chosen func(name string) bool) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		err := fs.WalkDir(d.root.FS(), below, func(name string, entry fs.DirEntry, err error) error {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil || entry.IsDir() || !chosen(name) {
				return gone(err)
			}
			info, err := entry.Info()
			if err != nil {
				return gone(err)
			}
			if !yield(Object{name, info.Size(), info.ModTime()}, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Object{}, err)
		}
	}
}

// gone is an error but that of a file that another has deleted meanwhile.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Clean implements [Store].
func (d dir) Clean(ctx context.Context, below string, before time.Time) error {
	for part, err := range d.walk(ctx, path.Dir(below), partForm.MatchString) {
		if err == nil && part.Time.Before(before) {
			err = d.Delete(ctx, part.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
