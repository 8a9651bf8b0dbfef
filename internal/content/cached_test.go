package content

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What is read of a file in memory is what a plain read gives, and stands where that would stand.
func TestWhatIsInMemoryOfAFileIsReadAsTheRest(t *testing.T) {
	data := bytes.Repeat([]byte("a picture in blocks "), 20_000)
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var got []byte
	block := make([]byte, blockSize)
	for turn := 0; err == nil; turn++ {
		n := 0
		if turn%2 == 0 {
			n = readCached(opened, block)
		}
		if n == 0 {
			n, err = opened.Read(block)
		}
		got = append(got, block[:n]...)
	}
	if err != io.EOF || !bytes.Equal(got, data) { //nolint:errorlint // no error wraps it
		t.Errorf("%d bytes are read of %d, %v", len(got), len(data), err)
	}
}

// A pipe that nobody writes to hangs, as a disk does.
func TestWhatIsNotInMemoryIsNotWaitedFor(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if n := readCached(pipe, make([]byte, 10)); n != 0 {
		t.Errorf("%d bytes are read of nothing", n)
	}
}
