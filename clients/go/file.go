package easel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DownloadFile downloads a render's file to path. Until the file is complete, it has a temporary name in the same directory.
// After an error, DownloadFile removes the incomplete file. If path exists and is not a regular file, the error is
// [ErrNotRegular].
func (c *Client) DownloadFile(ctx context.Context, generationID, path string, options ...CallOption) error {
	if err := checkRegular(path); err != nil {
		return err
	}
	_, err := c.Fetch(ctx, generationID, path, FetchOptions{}, options...)
	return err
}

// Fetch is like DownloadFile, but has options and returns a description of the file. If path is a directory, the file gets the
// name that the server suggests.
func (c *Client) Fetch(ctx context.Context, generationID, path string, options FetchOptions, more ...CallOption) (*Content, error) {
	if !isDirectory(path) {
		if err := checkRegular(path); err != nil {
			return nil, err
		}
	}
	part := &partFile{}
	content, err := c.fetch(ctx, generationID, options, more, func(fileName string) (io.Writer, error) {
		return part.open(path, fileName, options.Keep)
	})
	if err = part.endFile(err, options.Keep); err != nil {
		return nil, err
	}
	content.Path = part.target
	return content, nil
}

// ErrNotRegular is the error for a path that names a device, a pipe, a socket, a directory, or a link to one of these.
var ErrNotRegular = errors.New("not a regular file")

// checkRegular returns [ErrNotRegular] if path exists and is not a regular file.
func checkRegular(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return &fs.PathError{Op: "write", Path: path, Err: ErrNotRegular}
	}
	return nil
}

// WriteFile writes data to path. Like DownloadFile, it writes to a temporary file, which it then renames to path. If path
// exists and keepExisting is true, WriteFile leaves the file at path unchanged and returns fs.ErrExist.
func WriteFile(path string, data []byte, keepExisting bool) error {
	part := &partFile{}
	w, err := part.open(path, "", keepExisting)
	if err == nil {
		_, err = w.Write(data)
	}
	return part.endFile(err, keepExisting)
}

// partFile is a temporary file. It is renamed to target when it is complete.
type partFile struct {
	*os.File
	target string
}

// open sets the target and creates the part file. It never opens an existing file and does not follow links.
func (p *partFile) open(path, fileName string, keepExisting bool) (_ io.Writer, err error) {
	if p.target, err = targetOf(path, fileName); err != nil {
		return nil, err
	}
	if err := checkRegular(p.target); err != nil {
		return nil, err
	}
	if keepExisting {
		if _, err := os.Lstat(p.target); err == nil {
			return nil, &fs.PathError{Op: "create", Path: p.target, Err: fs.ErrExist}
		}
	}
	dir, base := filepath.Split(p.target)
	removeStale(dir, base)
	p.File, err = os.OpenFile(filepath.Join(dir, "."+base+"."+rand.Text()[:10]+".part"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) //nolint:gosec // the path comes from the caller, and the umask limits who can read the file
	return p.File, err
}

// staleAge is the time since the last write after which a part file is regarded as abandoned. A running download writes more
// often.
const staleAge = 24 * time.Hour

// removeStale removes the part files of dir/base that are older than staleAge. Such a file remains if a process is killed
// during a download.
func removeStale(dir, base string) {
	entries, _ := os.ReadDir(filepath.Join(dir, ".")) // if the directory can't be read, old part files remain
	for _, entry := range entries {
		random, isPart := strings.CutPrefix(strings.TrimSuffix(entry.Name(), ".part"), "."+base+".")
		info, err := entry.Info()
		if isPart && strings.HasSuffix(entry.Name(), ".part") && !strings.Contains(random, ".") && err == nil && time.Since(info.ModTime()) > staleAge {
			_ = os.Remove(filepath.Join(dir, entry.Name())) // if this fails, the next download tries again
		}
	}
}

// isDirectory reports whether path is an existing directory, is empty (the current directory) or ends with a separator.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return path == "" || os.IsPathSeparator(path[len(path)-1]) || err == nil && info.IsDir()
}

// targetOf returns the path of the file to write. If path is a directory, the file has the name that the server suggests.
func targetOf(path, fileName string) (string, error) {
	if !isDirectory(path) {
		return path, nil
	}
	unsafe := func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`/\:`, r) }
	if fileName == "" || strings.HasPrefix(fileName, ".") || strings.ContainsFunc(fileName, unsafe) {
		return "", fmt.Errorf("easel: the server suggests the unsafe file name %q", fileName)
	}
	return filepath.Join(path, fileName), nil
}

// endFile renames the part file to its target. If err is not nil, it removes the part file instead and returns err.
func (p *partFile) endFile(err error, keepExisting bool) error {
	if p.File == nil {
		return err
	}
	if err == nil {
		err = p.finishFile(keepExisting)
	} else {
		_ = p.Close() // the file is removed below
	}
	if err != nil {
		_ = os.Remove(p.Name())
	}
	return err
}

// finishFile renames the complete file to its target. If keepExisting is true, it creates a hard link instead, because a link
// never replaces a file. If the link fails and the target does not exist, finishFile renames the file after all.
func (p *partFile) finishFile(keepExisting bool) error {
	if err := errors.Join(p.Sync(), p.Close()); err != nil {
		return err
	}
	if !keepExisting {
		return errors.Join(os.Rename(p.Name(), p.target), syncDir(p.target))
	}
	err := os.Link(p.Name(), p.target)              // fails if the target exists
	if err != nil && !errors.Is(err, fs.ErrExist) { // the file system may not support hard links
		if _, there := os.Lstat(p.target); there != nil {
			return errors.Join(os.Rename(p.Name(), p.target), syncDir(p.target))
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(p.Name()), syncDir(p.target))
}

// syncDir syncs the directory of path, so that the new name survives a power failure. It ignores errors from opening and
// syncing the directory, because some systems can't sync directories. The bytes of the file are already synced.
func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	_ = dir.Sync()
	return dir.Close()
}
