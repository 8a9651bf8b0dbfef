package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestUnusableOutputPathIsRejectedBeforeOrdering(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken.png")
	proctest.Write(t, taken, "mine")
	for name, out := range map[string]string{
		"an existing file":                           taken,
		"a missing directory":                        filepath.Join(dir, "nowhere") + "/",
		"a file in a missing directory":              filepath.Join(dir, "nowhere", "a.png"),
		"a path below a regular file":                filepath.Join(taken, "a.png"),
		"a directory that is not writable":           "/proc/",
		"a file in a directory that is not writable": "/proc/easel-test.png",
	} {
		o := &orders{}
		got := easelRun(t.Context(), o.serve(t), "generate", "studio/any", "--out", out)
		if got.exit != ExitUsage || len(o.got) != 0 || !strings.Contains(got.stderr, nothingOrdered) || !strings.Contains(got.stderr, out) {
			t.Errorf("%s: exit %d after %d orders\n%s", name, got.exit, len(o.got), got.stderr)
		}
		if missing := strings.Contains(out, "nowhere"); missing != strings.Contains(got.stderr, "mkdir -p "+filepath.Join(dir, "nowhere")) {
			t.Errorf("%s: only an error about a missing directory must have a mkdir command\n%s", name, got.stderr)
		}
		if names := filesIn(t, dir); len(names) != 1 {
			t.Errorf("%s: the directory contains %q, want one file", name, names)
		}
	}
}

func TestFailedResultDownloadSuggestsDownloadCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // uses virtual time, because the command waits before it retries the download
		made := render("gen_1", succeeded)
		made.Result = &easelv1.Generation_File{File: &easelv1.FileResult{ContentType: "image/png"}}
		content := newContent()
		content.damage = func(c *easelv1.ContentChunk) { c.Crc32C ^= 1 }
		dial := orderingServer(func(_ *easelv1.WatchGenerationRequest, s oneStream) error { return sendRender(s, made) }, content.sendFile).serve(t)
		out := filepath.Join(t.TempDir(), "my sea.bin")
		got := easelRun(t.Context(), dial, "generate", "studio/any", "--out", out)
		if want := "easel download gen_1 --out '" + out + "'"; got.exit == ExitOK || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "same command again") {
			t.Errorf("exit %d, want the hint %s\n%s", got.exit, want, got.stderr)
		}
	})
}

func TestFailedWatchDuringGenerateSuggestsDownloadCommand(t *testing.T) {
	dial := orderingServer(func(*easelv1.WatchGenerationRequest, oneStream) error { return serverError(codes.Unauthenticated, "") }, nil).serve(t)
	got := easelRun(t.Context(), dial, "generate", "studio/any", "--out", t.TempDir())
	if got.exit != ExitCredential || !strings.Contains(got.stderr, "easel download gen_1 --wait 10m --out ") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
}
