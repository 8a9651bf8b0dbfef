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

// Store stores objects by name. Names consist of letters, digits, dashes and slashes. For a missing object, the error is
// [fs.ErrNotExist].
type Store interface {
	// Put writes an object completely or not at all, and returns its size in bytes. size is the size of body, or -1 if it is
	// unknown.
	Put(ctx context.Context, name string, body io.Reader, size int64) (written int64, err error)
	// Get opens an object at an offset, which must be less than the size of the object. It returns the size of the complete
	// object. If the object is in S3, reads from body fail when ctx is done.
	Get(ctx context.Context, name string, offset int64) (body io.ReadCloser, size int64, err error)
	// Size returns the size of an object.
	Size(ctx context.Context, name string) (int64, error)
	// Delete deletes an object, or the remains of an aborted write. It returns nil if the object is missing.
	Delete(ctx context.Context, name string) error
	// List returns all objects whose names start with a prefix. It also returns the remains of aborted writes.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
}

// Object is an object in a store, or the remains of an aborted write.
type Object struct {
	Name string
	Time time.Time // time when the object was written, or when the aborted write started
}

// Form is the syntax of EASEL_CONTENT_URL.
const Form = "file:DIR or s3://BUCKET/PREFIX?endpoint=URL&region=NAME"

// Check returns an error if the address of a store is invalid. It sends no requests. If mayUseHTTP is true, unencrypted
// transfers are allowed. The error contains no secrets from the address.
func Check(address string, mayUseHTTP bool) error {
	if _, isDir := dirOf(address); isDir {
		return nil
	}
	_, err := openS3(address, mayUseHTTP)
	return err
}

// dirOf returns the directory in an address that starts with file:. isDir is false for other addresses.
func dirOf(address string) (name string, isDir bool) {
	name, isDir = strings.CutPrefix(address, "file:")
	return strings.TrimPrefix(name, "//"), isDir && name != ""
}

// OpenStore opens the store at an address. If mayUseHTTP is true, unencrypted transfers are allowed. Errors contain no secrets
// from the address.
func OpenStore(address string, mayUseHTTP bool) (Store, error) {
	if name, isDir := dirOf(address); isDir {
		return openDir(name)
	}
	return openS3(address, mayUseHTTP)
}

// ignoreMissing returns nil if err means that the object is missing. It returns other errors unchanged.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
