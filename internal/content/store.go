package content

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"
)

// Store stores objects by name. Names contain letters, digits, dashes and slashes. The error about a missing object is [fs.ErrNotExist].
type Store interface {
	// Put writes an object completely or not at all, and returns its size. size is the size of the body, -1 if it is unknown.
	Put(ctx context.Context, name string, body io.Reader, size int64) (written int64, err error)
	// Get reads an object from an offset before its end, and returns its complete size. The body of an S3 object fails when the
	// context is done.
	Get(ctx context.Context, name string, offset int64) (body io.ReadCloser, size int64, err error)
	// Size returns the size of an object.
	Size(ctx context.Context, name string) (int64, error)
	// Delete deletes an object and the remains of an aborted write, if there are any.
	Delete(ctx context.Context, name string) error
	// List returns the objects whose names have a prefix, and the remains of aborted writes.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
}

// Object is an object of a store, or the remains of an aborted write.
type Object struct {
	Name string
	Time time.Time // time when it was written, or when the write started
}

// Form is the syntax of EASEL_CONTENT_URL.
const Form = "file:DIR or s3://BUCKET/PREFIX?endpoint=URL&region=NAME"

// Check returns an error if the address of a store is invalid, without its secrets. insecure allows unencrypted transfers. It
// sends no requests.
func Check(address string, insecure bool) error {
	if _, isDir := dirOf(address); isDir {
		return nil
	}
	_, err := openS3(address, insecure)
	return err
}

// dirOf returns the directory of an address, and reports whether it has one.
func dirOf(address string) (name string, isDir bool) {
	name, isDir = strings.CutPrefix(address, "file:")
	return strings.TrimPrefix(name, "//"), isDir && name != ""
}

// OpenStore opens the store of an address, under the conditions of [Check].
func OpenStore(address string, insecure bool) (Store, error) {
	if name, isDir := dirOf(address); isDir {
		return openDir(name)
	}
	return openS3(address, insecure)
}

// gone returns nil if there is no such object, and other errors unchanged.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
