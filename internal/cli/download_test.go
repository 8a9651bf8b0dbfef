package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

// content is a result that a scripted server sends. It records the requests for the result.
type content struct {
	bytes    []byte
	breakAt  []int // offsets at which downloads break off: the first element applies to the first stream, and so on
	damage   func(*easelv1.ContentChunk)
	requests []*easelv1.DownloadGenerationRequest
}

func newContent() *content {
	return &content{bytes: bytes.Repeat([]byte("0123456789abcdef"), 4096)}
}

// sendFile sends the result from the requested offset. If breakAt is not empty, sendFile removes its first element,
// which is an offset, and fails when it reaches that offset.
func (c *content) sendFile(r *easelv1.DownloadGenerationRequest, stream downloadStream) error {
	c.requests = append(c.requests, r)
	end := len(c.bytes)
	broken := len(c.breakAt) > 0
	if broken {
		end, c.breakAt = c.breakAt[0], c.breakAt[1:]
	}
	whole := int64(len(c.bytes))
	info := &easelv1.ContentInfo{ContentType: "application/octet-stream", SizeBytes: &whole, FileName: "gen_1.bin", Etag: "v1"}
	for at := int(r.ReadOffset); at <= end; at += 1000 {
		data := c.bytes[at:min(at+1000, end)]
		chunk := &easelv1.ContentChunk{
			Offset: int64(at), Data: data, Info: info,
			Crc32C: crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)),
		}
		info = nil
		if at+1000 > end && !broken && r.ReadOffset == 0 {
			sum := sha256.Sum256(c.bytes)
			chunk.Summary = &easelv1.ContentSummary{SizeBytes: whole, Sha256: hex.EncodeToString(sum[:])}
		}
		if c.damage != nil {
			c.damage(chunk)
		}
		if err := stream.Send(&easelv1.DownloadGenerationResponse{Chunk: chunk}); err != nil {
			return err
		}
	}
	if broken {
		return serverError(codes.Unavailable, "CONTENT_INTERRUPTED")
	}
	return nil
}

func (c *content) serve(t *testing.T) dialer { return (&scripted{download: c.sendFile}).serve(t) }

// filesIn returns the paths of the files in a directory, including hidden files.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func wantFile(t *testing.T, path string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, %v; want the %d that were sent", path, len(got), err, len(want))
	}
}

func TestDownloadUsesFileNameFromServer(t *testing.T) {
	dir, c := t.TempDir(), newContent()
	got := easelRun(t.Context(), c.serve(t), "download", "gen_1", "--out", dir, "-o", "json")
	var answer struct {
		Path, SHA256 string
		SizeBytes    int
	}
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || got.exit != ExitOK {
		t.Fatalf("exit %d, %v\n%s%s", got.exit, err, got.stdout, got.stderr)
	}
	sum := sha256.Sum256(c.bytes)
	if answer.SHA256 != hex.EncodeToString(sum[:]) || answer.SizeBytes != len(c.bytes) {
		t.Errorf("the output is %+v", answer)
	}
	wantFile(t, filepath.Join(dir, "gen_1.bin"), c.bytes)
	if names := filesIn(t, dir); len(names) != 1 {
		t.Errorf("the directory contains %q, want one file", names)
	}
}

func TestDownloadOverwritesFileOnlyWithForce(t *testing.T) {
	dir, c := t.TempDir(), newContent()
	path := filepath.Join(dir, "mine.bin")
	proctest.Write(t, path, "mine")
	got := easelRun(t.Context(), c.serve(t), "download", "gen_1", "--out", path)
	if got.exit != ExitUsage || !strings.Contains(got.stderr, "--force") || len(c.requests) != 0 {
		t.Errorf("exit %d after %d requests\n%s", got.exit, len(c.requests), got.stderr)
	}
	wantFile(t, path, []byte("mine"))
	if got := easelRun(t.Context(), c.serve(t), "download", "gen_1", "--out", path, "--force"); got.exit != ExitOK {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
	wantFile(t, path, c.bytes)
}

func TestGenerateWritesRegularFilesOnly(t *testing.T) {
	fifo, o := filepath.Join(t.TempDir(), "fifo"), &orders{}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	got := easelRun(t.Context(), o.serve(t), "generate", "studio/any", "--out", fifo, "--force")
	if got.exit == ExitOK || !strings.Contains(got.stderr, "not a regular file") || len(o.got) != 0 {
		t.Errorf("exit %d after %d orders\n%s", got.exit, len(o.got), got.stderr)
	}
	if info, err := os.Lstat(fifo); err != nil || info.Mode().IsRegular() {
		t.Errorf("the FIFO has mode %v, error %v", info.Mode(), err)
	}
}

func TestFileCreatedDuringDownloadIsNotOverwritten(t *testing.T) {
	dir, c := t.TempDir(), newContent()
	path := filepath.Join(dir, "mine.bin")
	c.damage = func(chunk *easelv1.ContentChunk) {
		if chunk.Offset == 0 {
			_ = os.WriteFile(path, []byte("mine"), 0o600) // another program creates the file during the download
		}
	}
	got := easelRun(t.Context(), c.serve(t), "download", "gen_1", "--out", path)
	if got.exit != ExitUsage {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
	wantFile(t, path, []byte("mine"))
	if names := filesIn(t, dir); len(names) != 1 {
		t.Errorf("the directory contains %q, want one file", names)
	}
}

func TestDownloadToStandardOutputIsCompleteOrEmpty(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := newContent()
	got := easelRun(t.Context(), c.serve(t), "download", "gen_1", "--out", "-")
	if got.exit != ExitOK || got.stdout != string(c.bytes) || got.stderr != "" {
		t.Errorf("exit %d with %d bytes\n%s", got.exit, len(got.stdout), got.stderr)
	}
	synctest.Test(t, func(t *testing.T) {
		c := newContent()
		c.breakAt = []int{30_000}
		if got := easelRun(t.Context(), c.serve(t), "download", "gen_1", "--out", "-", "-q"); got.exit != ExitOK || got.stdout != string(c.bytes) || got.stderr != "" {
			t.Errorf("after an interruption: exit %d with %d bytes\n%s", got.exit, len(got.stdout), got.stderr)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newContent()
		c.breakAt = []int{30_000, 30_000, 30_000, 30_000, 30_000, 30_000, 30_000, 30_000}
		if got := easelRun(t.Context(), c.serve(t), "download", "gen_1", "--out", "-", "--timeout", "9s"); got.exit != ExitRetry || got.stdout != "" {
			t.Errorf("after repeated interruptions: exit %d with %d bytes\n%s", got.exit, len(got.stdout), got.stderr)
		}
	})
	c = newContent()
	c.damage = func(chunk *easelv1.ContentChunk) {
		if chunk.Summary != nil {
			chunk.Summary.Sha256 = "00"
		}
	}
	if got := easelRun(t.Context(), c.serve(t), "download", "gen_1", "--out", "-"); got.exit != ExitFailure || got.stdout != "" {
		t.Errorf("wrong checksum: exit %d with %d bytes\n%s", got.exit, len(got.stdout), got.stderr)
	}
	if names := filesIn(t, os.Getenv("TMPDIR")); len(names) != 0 {
		t.Errorf("these temporary files remain: %q", names)
	}
	if got := easelRun(t.Context(), c.serve(t), "download", "gen_1", "--out", "-", "-o", "json"); got.exit != ExitUsage || !strings.Contains(got.stderr, "standard output") {
		t.Errorf("--out - with -o json: exit %d\n%s", got.exit, got.stderr)
	}
}

// poemServer starts a scripted server with one render in the given state. The render has no file. If it
// has succeeded, it has a text result.
func poemServer(t *testing.T, state easelv1.State) dialer {
	return (&scripted{
		download: func(*easelv1.DownloadGenerationRequest, downloadStream) error {
			return serverError(codes.FailedPrecondition, "NO_CONTENT")
		},
		get: func(r *easelv1.GetGenerationRequest) (*easelv1.Generation, error) {
			g := render(r.GenerationId, state)
			if state == succeeded {
				g.Result = &easelv1.Generation_Text{Text: &easelv1.TextResult{Text: "grey water\nasks"}}
			}
			return g, nil
		},
	}).serve(t)
}

func TestTextResultIsWrittenToFileOrStandardOutput(t *testing.T) {
	const text = "grey water\nasks\n"
	dial, dir := poemServer(t, succeeded), t.TempDir()
	for _, test := range []struct{ out, path string }{
		{dir, filepath.Join(dir, "gen_1.txt")},
		{filepath.Join(dir, "poem.md"), filepath.Join(dir, "poem.md")},
	} {
		got := easelRun(t.Context(), dial, "download", "gen_1", "--wait", "10m", "--out", test.out, "-o", "json")
		var file saved
		if err := json.Unmarshal([]byte(got.stdout), &file); err != nil || got.exit != ExitOK {
			t.Fatalf("exit %d, %v\n%s%s", got.exit, err, got.stdout, got.stderr)
		}
		sum := sha256.Sum256([]byte(text))
		if want := (saved{test.path, "text/plain; charset=utf-8", int64(len(text)), hex.EncodeToString(sum[:]), ""}); file != want {
			t.Errorf("the output is %+v, want %+v", file, want)
		}
		wantFile(t, test.path, []byte(text))
	}
	if got := easelRun(t.Context(), dial, "download", "gen_1", "--out", dir); got.exit != ExitUsage || !strings.Contains(got.stderr, "--force") {
		t.Errorf("an existing file: exit %d\n%s", got.exit, got.stderr)
	}
	if got := easelRun(t.Context(), dial, "download", "gen_1", "--out", "-"); got.exit != ExitOK || got.stdout != text || got.stderr != "" {
		t.Errorf("--out -: printed %q, exit %d\n%s", got.stdout, got.exit, got.stderr)
	}
	if names := filesIn(t, dir); len(names) != 2 {
		t.Errorf("the directory contains %q, want two files", names)
	}
}

func TestDownloadOfFailedRenderReportsNoContent(t *testing.T) {
	dir := t.TempDir()
	got := easelRun(t.Context(), poemServer(t, failed), "download", "gen_1", "--out", dir)
	if names := filesIn(t, dir); got.exit != ExitFailure || !strings.Contains(got.stderr, "NO_CONTENT") || len(names) != 0 {
		t.Errorf("exit %d, left behind: %q\n%s", got.exit, names, got.stderr)
	}
}

// full is a writer that fails as if the disk were full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestFailedWriteToStandardOutputFailsCommand(t *testing.T) {
	stderr := proctest.NewOutput()
	p := &Program{Grammar: grammar(), Stdout: full{}, Stderr: stderr, Lookup: func(string) (string, bool) { return "", false }}
	p.Dial = watchScript(t, func(_ *easelv1.WatchGenerationRequest, s oneStream) error { sendState(s, succeeded); return nil })
	if exit := Run(t.Context(), []string{"watch", "gen_1"}, p); exit != ExitFailure || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit %d\n%s", exit, stderr)
	}
}
