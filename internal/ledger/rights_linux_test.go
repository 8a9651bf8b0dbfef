package ledger_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// asNobody runs a function on a thread that lacks root's access to files, even if the tests run as root.
func asNobody(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread exits with the goroutine
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0)
		fn()
	}()
	<-done
}

func TestLedgerFileWithoutPermissionsIsRejected(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "easel-rights-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	url := "sqlite:" + filepath.Join(dir, "book.db")
	closeLedger(t, open(t, url))
	for _, mode := range []os.FileMode{0o444, 0} {
		if err := os.Chmod(filepath.Join(dir, "book.db"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		asNobody(func() { wantRefusal(t, url, "access to the file denied") })
	}
}
