package content

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/netip"
	"strings"
	"time"
)

// Store stores objects by name. Names contain letters, digits, dashes and slashes.
type Store interface {
	// Put writes an object completely or not at all. size is the size of the body, -1 if it is unknown.
	Put(ctx context.Context, name string, body io.Reader, size int64) error
	// Get reads an object from an offset before its end, and returns its complete size. Its error is [ErrAbsent] if there is
	// no such object. The body of an S3 object fails when the context is done.
	Get(ctx context.Context, name string, offset int64) (body io.ReadCloser, size int64, err error)
	// Size returns the size of an object. Its error is [ErrAbsent] if there is no such object.
	Size(ctx context.Context, name string) (int64, error)
	// Delete deletes an object, if there is one.
	Delete(ctx context.Context, name string) error
	// List returns the objects whose names have a prefix.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Clean deletes the remains of aborted writes of objects whose names have a prefix, if the writes started before the given
	// time. The zero time deletes all remains.
	Clean(ctx context.Context, prefix string, before time.Time) error
}

// Object is an object of a store.
type Object struct {
	Name string
	Size int64
	Time time.Time // time when it was written
}

// ErrAbsent means that the store has no such object.
var ErrAbsent = errors.New("the store has no such object")

// Form is the syntax of EASEL_CONTENT_URL.
const Form = "file:DIR or s3://BUCKET/PREFIX?endpoint=URL&region=NAME"

// Check returns an error if the address of a store is invalid, without its secrets. insecure allows unencrypted transfers. It
// sends no requests.
func Check(address string, insecure bool) error {
	if _, isDir := dirOf(address); isDir {
		return nil
	}
	at, err := parseS3(address)
	if err == nil && !insecure && at.endpoint.Scheme == "http" && !loopback(at.endpoint.Hostname()) {
		err = errors.New("EASEL_CONTENT_URL: endpoint must be https, otherwise results travel unencrypted; EASEL_UPSTREAM_INSECURE=true allows it")
	}
	return err
}

// dirOf returns the directory of an address, and reports whether it has one.
func dirOf(address string) (name string, isDir bool) {
	name, isDir = strings.CutPrefix(address, "file:")
	return strings.TrimPrefix(name, "//"), isDir && name != ""
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// OpenStore opens a store.
func OpenStore(address string) (Store, error) {
	if name, isDir := dirOf(address); isDir {
		return openDir(name)
	}
	at, err := parseS3(address)
	if err != nil {
		return nil, err
	}
	return openS3(at)
}
