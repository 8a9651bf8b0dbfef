package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"
)

// partSize is the size of all parts of a file but the last. A file lies in parts, so that neither a
// render nor a download holds a whole one in memory or the writer for long.
const partSize = 256 << 10

// storeContent writes a file in parts. What a killed process left of it is replaced.
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
	select {
	case <-w.s.done:
		return errClosing
	default:
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

// partReader reads a stored file from any offset.
type partReader struct {
	s          *Sandbox
	generation int64
	size, at   int64
	number     int64 // of the part at hand
	part       []byte
}

func (r *partReader) Read(p []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if number := r.at / partSize; r.part == nil || number != r.number {
		r.part = r.part[:0]
		if err := r.s.db.read.queryRow(`SELECT bytes FROM content WHERE generation = ? AND part = ?`,
			r.generation, number).Scan(&r.part); err != nil {
			return 0, err
		}
		r.number = number
	}
	offset := r.at % partSize
	if offset >= int64(len(r.part)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, r.part[offset:])
	r.at += int64(n)
	return n, nil
}

func (r *partReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("sandbox: seek before the start")
	}
	r.at = offset
	return offset, nil
}

// content is GET /generations/{id}/content.
func (s *Sandbox) content(c *call) error {
	g, err := findGeneration(s.db.read.link, c.who.id, c.id)
	if err != nil {
		return err
	}
	switch {
	case g.state == stateQueued:
		return &apiError{status: http.StatusConflict, code: "CONTENT_NOT_READY", message: "The render has not finished."}
	case g.contentType == "":
		return &apiError{status: http.StatusNotFound, code: "NO_CONTENT", message: "This generation has no file."}
	}
	file := &partReader{s: s, generation: g.id, size: g.contentSize}
	head := c.w.Header()
	head.Set("Content-Type", g.contentType)
	head.Set("ETag", g.contentEtag)
	if !s.cfg.Dialect.NoRange {
		http.ServeContent(c.w, c.r, "", time.Unix(0, g.finished), file)
		return nil
	}
	head.Set("Accept-Ranges", "none")
	head.Set("Content-Length", strconv.FormatInt(g.contentSize, 10))
	_, err = io.Copy(c.w, file)
	if err != nil {
		panic(http.ErrAbortHandler) // the status is sent; only a cut connection tells the client
	}
	return nil
}
