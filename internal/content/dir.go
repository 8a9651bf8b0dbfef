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

// dir is a store in a directory, for replicas that share it too. Its disk may be one of a network that hangs.
type dir struct {
	root *os.Root
	busy places
}

// places bound how many operations are on their way.
type places chan struct{}

func (p places) give() { <-p }

// filesAtOnce bound the operations on files that are on their way. Those that hang keep their places.
const filesAtOnce = 64

// beside does an operation on files beside its caller, who does not wait longer than a context lasts. What comes later is
// for late.
func beside[T any](ctx context.Context, busy places, do func() (T, error), late func(T)) (got T, err error) {
	if ctx.Err() != nil {
		return got, context.Cause(ctx)
	}
	select {
	case busy <- struct{}{}:
	case <-ctx.Done():
		return got, context.Cause(ctx)
	}
	type outcome struct {
		got T
		err error
	}
	done := make(chan outcome)
	go func() {
		got, err := do()
		busy.give()
		select {
		case done <- outcome{got, err}:
		case <-ctx.Done():
			if err == nil && late != nil {
				late(got)
			}
		}
	}()
	select {
	case all := <-done:
		return all.got, all.err
	case <-ctx.Done():
		return got, context.Cause(ctx)
	}
}

// does is [beside] for what gives nothing.
func (d dir) does(ctx context.Context, do func() error) error {
	_, err := beside(ctx, d.busy, func() (struct{}, error) { return struct{}{}, do() }, nil)
	return err
}

// opens is [beside] for what opens a file. One that is opened late is closed before late is called.
func (d dir) opens(ctx context.Context, open func() (*os.File, error), late func()) (file, error) {
	opened, err := beside(ctx, d.busy, open, func(opened *os.File) {
		_ = opened.Close()
		late()
	})
	return file{ctx, d.busy, opened}, err
}

// file is one that is open. What was given to it stays its own after an error: an operation that hangs has it still.
type file struct {
	ctx  context.Context //nolint:containedctx // of whoever has opened it
	busy places
	file *os.File
}

// Read implements [io.Reader]. What is in memory of the file comes at once; its disk may hang.
func (f file) Read(p []byte) (int, error) {
	if n := readCached(f.file, p); n > 0 && f.ctx.Err() == nil {
		return n, nil
	}
	return beside(f.ctx, f.busy, func() (int, error) { return f.file.Read(p) }, nil)
}

// Write implements [io.Writer].
func (f file) Write(p []byte) (int, error) {
	return beside(f.ctx, f.busy, func() (int, error) { return f.file.Write(p) }, nil)
}

// Close implements [io.Closer]. It does not wait.
func (f file) Close() error {
	go func() { _ = f.file.Close() }() // it was read, or has failed
	return nil
}

// writeSize is how much is written at once.
const writeSize = 256 << 10

// partSuffix ends the name of a file that is being written.
const partSuffix = ".part"

// partForm is the form of such a name: [dir.Put] has a word of [rand.Text] in it.
var partForm = regexp.MustCompile(`\.[A-Z2-7]{26}\.part$`)

// openDir opens a directory, and does not wait for a disk that hangs.
func openDir(ctx context.Context, name string) (Store, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	busy := make(places, filesAtOnce)
	root, err := beside(ctx, busy, func() (*os.Root, error) {
		if err := os.MkdirAll(name, 0o700); err != nil {
			return nil, err
		}
		return os.OpenRoot(name)
	}, func(late *os.Root) { _ = late.Close() })
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s does not answer: is its disk there?", name)
	}
	if err != nil {
		return nil, fmt.Errorf("EASEL_CONTENT_URL: %w", err)
	}
	return dir{root, busy}, nil
}

// Put implements [Store]. A file has its name when it is whole and on the disk.
func (d dir) Put(ctx context.Context, name string, body io.Reader, size int64) (err error) {
	part := name + "." + rand.Text() + partSuffix
	into, err := d.opens(ctx, func() (*os.File, error) {
		if err := d.root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return nil, err
		}
		return d.root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}, func() { _ = d.root.Remove(part) }) // else Clean does
	if err != nil {
		return err
	}
	written, err := io.CopyBuffer(onlyWriter{into}, bounded{ctx, body}, make([]byte, writeSize))
	if err == nil && size >= 0 && written != size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = d.does(ctx, func() error { return d.name(into.file, part, name) })
	} else {
		_ = into.Close() // what it has is not wanted
	}
	if err != nil {
		d.drop(ctx, part)
	}
	return err
}

// name gives a file that was written its name.
func (d dir) name(written *os.File, part, name string) error {
	err := written.Sync()
	if closed := written.Close(); err == nil {
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

// drop deletes what was not written to its end; [dir.Clean] does where this can't.
func (d dir) drop(ctx context.Context, part string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	_ = d.Delete(ctx, part)
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
func (d dir) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	from, err := d.opens(ctx, func() (*os.File, error) {
		opened, err := d.root.Open(name)
		if err != nil || offset == 0 {
			return opened, err
		}
		if _, err = opened.Seek(offset, io.SeekStart); err != nil {
			_ = opened.Close() // the first error says more
		}
		return opened, err
	}, func() {})
	if err != nil {
		return nil, absent(err)
	}
	return from, nil
}

// Size implements [Store].
func (d dir) Size(ctx context.Context, name string) (int64, error) {
	size, err := beside(ctx, d.busy, func() (int64, error) {
		info, err := d.root.Stat(name)
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}, nil)
	return size, absent(err)
}

// Delete implements [Store].
func (d dir) Delete(ctx context.Context, name string) error {
	return gone(d.does(ctx, func() error { return d.root.Remove(name) }))
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

// walk gives the files below a directory that are chosen, of one directory after the other.
func (d dir) walk(ctx context.Context, below string, chosen func(name string) bool) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		found, err := beside(ctx, d.busy, func() ([]fs.FileInfo, error) { return d.read(below) }, nil)
		if err = gone(err); err != nil {
			yield(Object{}, err)
			return
		}
		for _, info := range found {
			switch name := path.Join(below, info.Name()); {
			case info.IsDir():
				for object, err := range d.walk(ctx, name, chosen) {
					if !yield(object, err) || err != nil {
						return
					}
				}
			case chosen(name) && !yield(Object{name, info.Size(), info.ModTime()}, nil):
				return
			}
		}
	}
}

// read reads a directory, but for what another deletes meanwhile.
func (d dir) read(name string) (found []fs.FileInfo, err error) {
	entries, err := fs.ReadDir(d.root.FS(), name)
	for _, entry := range entries {
		info, failed := entry.Info()
		if failed == nil {
			found = append(found, info)
		} else if err == nil {
			err = gone(failed)
		}
	}
	return found, err
}

// gone is an error but that of a file that another has deleted meanwhile.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Clean implements [Store]. What can't be deleted does not keep the others.
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
