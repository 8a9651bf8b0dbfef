package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// partSize is the size of all parts of a file but the last. A file lies in parts, so that neither a
// render nor a download holds a whole one in memory or the writer for long.
const partSize = 256 << 10

// storeContent writes a file in parts. It replaces the remains of a killed process.
func (s *Sandbox) storeContent(generation int64, write func(io.Writer) error) (size int64, etag string, err error) {
	if err := s.dropContent(generation); err != nil {
		return 0, "", err
	}
	w := &partWriter{s: s, generation: generation, sum: sha256.New()}
	if err := write(w); err != nil {
		return 0, "", err
	}
	if err := w.flush(); err != nil {
		return 0, "", err
	}
	return w.size, `"` + hex.EncodeToString(w.sum.Sum(nil)[:16]) + `"`, nil
}

func (s *Sandbox) dropContent(generation int64) error {
	_, err := s.db.write.exec(`DELETE FROM content WHERE generation = ?`, generation)
	return err
}

type partWriter struct {
	s          *Sandbox
	generation int64
	number     int64
	part       []byte
	size       int64
	sum        hash.Hash
}

func (w *partWriter) Write(p []byte) (int, error) {
	all := len(p)
	for len(p) > 0 {
		n := min(len(p), partSize-len(w.part))
		w.part = append(w.part, p[:n]...)
		p = p[n:]
		if len(w.part) == partSize {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return all, nil
}

func (w *partWriter) flush() error {
	if w.s.ended() {
		return errClosing
	}
	if len(w.part) == 0 {
		return nil
	}
	w.sum.Write(w.part)
	_, err := w.s.db.write.exec(`INSERT INTO content (generation, part, bytes) VALUES (?, ?, ?)`,
		w.generation, w.number, w.part)
	w.size += int64(len(w.part))
	w.number++
	w.part = w.part[:0]
	return err
}

// storedFile reads a stored file.
type storedFile struct {
	db         link
	generation int64
	number     int64 // of the part at hand
	part       []byte
}

// ReadAt implements io.ReaderAt. One reader uses it at a time, and keeps to the size of the file.
func (f *storedFile) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		if err := f.load((at + int64(n)) / partSize); err != nil {
			return n, err
		}
		offset := (at + int64(n)) % partSize
		if offset >= int64(len(f.part)) {
			return n, io.ErrUnexpectedEOF
		}
		n += copy(p[n:], f.part[offset:])
	}
	return n, nil
}

func (f *storedFile) load(number int64) error {
	if f.part != nil && number == f.number {
		return nil
	}
	f.part, f.number = f.part[:0], number
	return f.db.queryRow(`SELECT bytes FROM content WHERE generation = ? AND part = ?`, f.generation, number).Scan(&f.part)
}

// content is GET /generations/{id}/content.
func (s *Sandbox) content(c *call) ([]byte, error) {
	g, err := findGeneration(s.db.read.link, c.who.id, c.id)
	if err != nil {
		return nil, err
	}
	switch {
	case g.state == stateQueued:
		return nil, &apiError{status: http.StatusConflict, code: "CONTENT_NOT_READY", message: "The render has not finished."}
	case g.contentType == "":
		return nil, &apiError{status: http.StatusNotFound, code: "NO_CONTENT", message: "This generation has no file."}
	}
	file := io.NewSectionReader(&storedFile{db: s.db.read.link, generation: g.id}, 0, g.contentSize)
	head := c.w.Header()
	head.Set("Content-Type", g.contentType)
	head.Set("ETag", g.contentEtag)
	if strings.Contains(c.r.Header.Get("Range"), ",") { // several ranges get the whole file
		c.r.Header.Del("Range")
	}
	if !s.cfg.Dialect.NoRange {
		http.ServeContent(c.w, c.r, "", time.Unix(0, g.finished), file)
		return nil, nil
	}
	head.Set("Accept-Ranges", "none")
	head.Set("Content-Length", strconv.FormatInt(g.contentSize, 10))
	if _, err := io.Copy(c.w, file); err != nil {
		panic(http.ErrAbortHandler) // the status is sent; only a cut connection tells the client
	}
	return nil, nil
}
