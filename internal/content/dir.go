package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
)

// dir is a store in a directory. Replicas may share the directory.
type dir struct{ root *os.Root }

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

// Put implements [Store]. A file gets its final name only when it is complete and on disk.
func (d dir) Put(ctx context.Context, name string, body io.Reader, _ int64) (written int64, err error) {
	if err := d.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return 0, err
	}
	part := name + ".part"
	file, err := d.root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	if written, err = io.Copy(file, body); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close(), ctx.Err()); err == nil {
		err = d.renameFile(part, name)
	}
	if err != nil {
		_ = d.root.Remove(part) // without the removal, List would return the incomplete file
	}
	return written, err
}

// renameFile renames a file, and flushes its directory so that the new name is on disk.
func (d dir) renameFile(part, name string) error {
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
		return nil, 0, err
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
		return 0, err
	}
	return info.Size(), nil
}

// Delete implements [Store]. It can also remove an incomplete file from an aborted write. List returns the names of these
// files, which end with .part.
func (d dir) Delete(_ context.Context, name string) error { return ignoreMissing(d.root.Remove(name)) }

// List implements [Store]. It skips files that are deleted while it runs.
func (d dir) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		err := fs.WalkDir(d.root.FS(), path.Dir(prefix), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasPrefix(name, prefix) {
				return errors.Join(ctx.Err(), ignoreMissing(err))
			}
			info, err := entry.Info()
			if err == nil && !yield(Object{name, info.ModTime()}, nil) {
				return fs.SkipAll
			}
			return errors.Join(ctx.Err(), ignoreMissing(err))
		})
		if err != nil {
			yield(Object{}, err)
		}
	}
}
