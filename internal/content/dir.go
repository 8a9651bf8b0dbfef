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

// dir is a store in a directory, which replicas may share.
type dir struct{ root *os.Root }

// partSuffix is the suffix of the name of a file that is being written.
const partSuffix = ".part"

// partForm matches the end of such a name. [dir.Put] adds a [rand.Text] token.
var partForm = regexp.MustCompile(`\.[A-Z2-7]{26}\.part$`)

// openDir opens a directory, and creates it if it does not exist.
func openDir(name string) (Store, error) {
	err := os.MkdirAll(name, 0o700)
	if err == nil {
		var root *os.Root
		if root, err = os.OpenRoot(name); err == nil {
			return dir{root}, nil
		}
	}
	return nil, fmt.Errorf("EASEL_CONTENT_URL: %w", err)
}

// Put implements [Store]. A file gets its name when it is complete and on disk.
func (d dir) Put(ctx context.Context, name string, body io.Reader, size int64) error {
	if err := d.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	part := name + "." + rand.Text() + partSuffix
	file, err := d.root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	written, err := io.Copy(file, body)
	if err == nil && size >= 0 && written != size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close(), ctx.Err()); err == nil {
		err = d.rename(part, name)
	}
	if err != nil {
		_ = d.root.Remove(part) // otherwise Clean removes it
	}
	return err
}

// rename renames a file, and waits until its name is on disk.
func (d dir) rename(part, name string) error {
	if err := d.root.Rename(part, name); err != nil {
		return err
	}
	below, err := d.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(below.Sync(), below.Close())
}

// Get implements [Store].
func (d dir) Get(_ context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	file, err := d.root.Open(name)
	if err != nil {
		return nil, 0, absent(err)
	}
	info, err := file.Stat()
	if err == nil {
		_, err = file.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
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
func (d dir) Delete(_ context.Context, name string) error { return gone(d.root.Remove(name)) }

// absent converts the error of a missing file.
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

// walk returns the chosen files below a directory, sorted by name.
func (d dir) walk(ctx context.Context, below string, chosen func(name string) bool) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		err := fs.WalkDir(d.root.FS(), below, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !chosen(name) {
				return errors.Join(ctx.Err(), gone(err))
			}
			info, err := entry.Info()
			if err == nil && !yield(Object{name, info.Size(), info.ModTime()}, nil) {
				return fs.SkipAll
			}
			return errors.Join(ctx.Err(), gone(err))
		})
		if err != nil {
			yield(Object{}, err)
		}
	}
}

// gone returns nil if another process has deleted the file, and other errors unchanged.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Clean implements [Store]. It continues after a failed deletion.
func (d dir) Clean(ctx context.Context, prefix string, before time.Time) (failed error) {
	isPart := func(name string) bool { return strings.HasPrefix(name, prefix) && partForm.MatchString(name) }
	for part, err := range d.walk(ctx, path.Dir(prefix), isPart) {
		if err == nil && (before.IsZero() || part.Time.Before(before)) {
			err = d.Delete(ctx, part.Name)
		}
		if err != nil {
			failed = err
		}
	}
	return failed
}
