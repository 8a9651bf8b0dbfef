package sandbox_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestDatabaseFileIsRejectedWhileAnotherProcessUsesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cata log#1.db")
	child, _ := startChild(t, path)
	_, err := sandbox.Open(sandbox.Config{Path: path})
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.HasSuffix(err.Error(), path+": another sandbox uses the file") {
		t.Errorf("while the other process runs, Open returned %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	s, err := sandbox.Open(sandbox.Config{Path: path})
	if err != nil {
		t.Fatalf("after the other process was killed, Open returned %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFileWithOtherSchemaVersionIsRejectedUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE theirs (x); PRAGMA user_version = 7`); err != nil {
		t.Fatal(err)
	}
	_, err = sandbox.Open(sandbox.Config{Path: path})
	if err == nil || !strings.Contains(err.Error(), "file has schema version 7, but this build requires version 2") {
		t.Errorf("opening the file returned %v", err)
	}
	tables := 0
	if err := db.QueryRow(`SELECT COUNT(*) FROM sqlite_master`).Scan(&tables); err != nil || tables != 1 {
		t.Errorf("the file has %d tables, %v", tables, err)
	}
}

func TestNonDatabaseFileIsRejectedUnchanged(t *testing.T) {
	path, text := filepath.Join(t.TempDir(), "notes.txt"), strings.Repeat("a note\n", 1000)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sandbox.Open(sandbox.Config{Path: path}); err == nil || !strings.Contains(err.Error(), "not a database") {
		t.Errorf("opening the file returned %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("the file was changed: %v", err)
	}
}
