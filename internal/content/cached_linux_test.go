package content

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAFileThatWasJustWrittenIsReadFromMemory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, blockSize), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, blockSize)
	if _, err := unix.Preadv2(int(file.Fd()), [][]byte{block}, 0, unix.RWF_NOWAIT); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this file system has no such reads")
	}
	if n := readCached(file, block); n != blockSize {
		t.Errorf("%d bytes of %d are read", n, blockSize)
	}
}
