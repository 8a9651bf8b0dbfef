package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// partSize is the size of the parts of a stored file, in bytes. Only the last part may be smaller. A download needs
// memory for only one part at a time.
const partSize = 256 << 10

// storeContent calls writeFile to produce a file, stores the file in parts, and returns its size and ETag. It first
// deletes any parts of the generation that a killed process stored.
func (s *Sandbox) storeContent(generation int64, writeFile func(io.Writer) error) (size int64, etag string, err error) {
	if err := s.dropContent(generation); err != nil {
		return 0, "", err
	}
	var file bytes.Buffer
	if err := writeFile(&file); err != nil {
		return 0, "", err
	}
	number := 0
	for part := range slices.Chunk(file.Bytes(), partSize) {
		if s.isClosed() {
			return 0, "", errClosing
		}
		if _, err := s.db.exec(`INSERT INTO content (generation, part, bytes) VALUES (?, ?, ?)`, generation, number, part); err != nil {
			return 0, "", err
		}
		number++
	}
	sum := sha256.Sum256(file.Bytes())
	return int64(file.Len()), `"` + hex.EncodeToString(sum[:16]) + `"`, nil
}

func (s *Sandbox) dropContent(generation int64) error {
	_, err := s.db.exec(`DELETE FROM content WHERE generation = ?`, generation)
	return err
}

// storedFile reads a stored file, one part at a time.
type storedFile struct {
	db         link
	generation int64
	number     int64 // number of the loaded part
	part       []byte
}

// ReadAt implements [io.ReaderAt], but is not safe for concurrent use.
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

// serveContent serves GET /generations/{id}/content.
func (s *Sandbox) serveContent(c *call) ([]byte, error) {
	g, err := findGeneration(s.db.link, c.who.id, c.id())
	if err != nil {
		return nil, err
	}
	switch {
	case g.state == stateQueued:
		return nil, &apiError{status: http.StatusConflict, code: "CONTENT_NOT_READY", message: "The render has not finished."}
	case g.contentType == "":
		return nil, &apiError{status: http.StatusNotFound, code: "NO_CONTENT", message: "This generation has no file."}
	}
	file := io.NewSectionReader(&storedFile{db: s.db.link, generation: g.id}, 0, g.contentSize)
	head := c.w.Header()
	head.Set("Content-Type", g.contentType)
	head.Set("ETag", g.contentEtag)
	if strings.Contains(c.r.Header.Get("Range"), ",") { // multiple ranges are not supported, so send the complete file
		c.r.Header.Del("Range")
	}
	if !s.cfg.Dialect.NoRange {
		http.ServeContent(c.w, c.r, "", time.Unix(0, g.finished), file)
		return nil, nil
	}
	head.Set("Accept-Ranges", "none")
	head.Set("Content-Length", strconv.FormatInt(g.contentSize, 10))
	if _, err := io.Copy(c.w, file); err != nil {
		panic(http.ErrAbortHandler) // the status was already sent, so only an aborted connection shows the client that bytes are missing
	}
	return nil, nil
}
