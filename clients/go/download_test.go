//go:build go1.25

package easel_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

var wholeFile = bytes.Repeat([]byte("easel"), 1000)

// piecesHandler returns a download handler that sends the bytes of wholeFile in chunks, starting at the requested
// offset. At endOffset, the handler stops and returns finalErr. It calls alterChunk with each chunk before it sends
// the chunk.
func piecesHandler(endOffset int, finalErr error, alterChunk func(*easelv1.ContentChunk)) func(*easelv1.DownloadGenerationRequest, downloadStream) error {
	return func(request *easelv1.DownloadGenerationRequest, stream downloadStream) error {
		if request.GetReadOffset() > 0 && request.GetEtag() != "bytes-1" {
			return status.Errorf(codes.FailedPrecondition, "the etag is %q", request.GetEtag())
		}
		size := int64(len(wholeFile))
		for at := int(request.GetReadOffset()); at < endOffset; at += 1000 {
			data := wholeFile[at:min(at+1000, endOffset)]
			chunk := &easelv1.ContentChunk{Offset: int64(at), Data: data, Crc32C: crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))}
			if at == int(request.GetReadOffset()) {
				chunk.Info = &easelv1.ContentInfo{Etag: "bytes-1", SizeBytes: &size}
			}
			if request.GetReadOffset() == 0 && at+1000 >= len(wholeFile) {
				sum := sha256.Sum256(wholeFile)
				chunk.Summary = &easelv1.ContentSummary{SizeBytes: size, Sha256: hex.EncodeToString(sum[:])}
			}
			alterChunk(chunk)
			if err := stream.Send(&easelv1.DownloadGenerationResponse{Chunk: chunk}); err != nil {
				return err
			}
		}
		return finalErr
	}
}

func asItIs(*easelv1.ContentChunk) {}

func withoutEtag(c *easelv1.ContentChunk) {
	if c.Info != nil {
		c.Info.Etag = ""
	}
}

func TestDownloadPreservesExistingFileContent(t *testing.T) {
	const before = "an archive of ten years\n"
	for name, test := range map[string]struct {
		flags int
		at    int64 // offset in the file at which the download starts to write
		want  string
	}{
		"appended":        {os.O_APPEND, 0, before + string(wholeFile)},
		"after a header":  {0, int64(len(before)), before + string(wholeFile)},
		"before a footer": {0, 0, ""}, // the download must fail, because restarting it would delete the rest of the file
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{
					piecesHandler(1500, status.Error(codes.Unavailable, "a cut"), withoutEtag),
					piecesHandler(len(wholeFile), nil, withoutEtag),
				}}
				path, content := filepath.Join(t.TempDir(), "archive"), before
				if test.want == "" {
					content = strings.Repeat(before, 1000)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				file, err := os.OpenFile(path, os.O_RDWR|test.flags, 0o600) //nolint:gosec // the file is in a temporary directory of the test
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				_, sought := file.Seek(test.at, io.SeekStart)
				err = errors.Join(sought, serveScript(t, s).Download(t.Context(), "gen_1", file))
				got, unread := os.ReadFile(path) //nolint:gosec // the file is in a temporary directory of the test
				if err := errors.Join(err, unread); (err == nil) != (test.want != "") {
					t.Fatal(err)
				}
				if test.want == "" && !bytes.HasSuffix(got, []byte(content[2000:])) || test.want != "" && string(got) != test.want {
					t.Errorf("the file does not have the wanted content; it has %d bytes: %.50q...", len(got), got)
				}
			})
		})
	}
}

func TestDownloadRemovesStalePartialFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, now := t.TempDir(), time.Now()
		for name, age := range map[string]time.Duration{".file.ABC.part": 25 * time.Hour, ".file.DEF.part": time.Hour, ".file.txt.GHI.part": 25 * time.Hour} {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, now, now.Add(-age))); err != nil {
				t.Fatal(err)
			}
		}
		s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{piecesHandler(len(wholeFile), nil, asItIs)}}
		if err := serveScript(t, s).DownloadFile(t.Context(), "gen_1", filepath.Join(dir, "file")); err != nil {
			t.Fatal(err)
		}
		var left []string
		entries, err := os.ReadDir(dir)
		for _, entry := range entries {
			left = append(left, entry.Name())
		}
		if got := strings.Join(left, " "); err != nil || got != ".file.DEF.part .file.txt.GHI.part file" {
			t.Errorf("the directory contains %s, %v; want every file except the abandoned part file of this target", got, err)
		}
	})
}

func TestDownloadDoesNotFollowSymlinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, other := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "other")
		if err := errors.Join(os.WriteFile(other, []byte("mine"), 0o600), os.Symlink(other, path)); err != nil {
			t.Fatal(err)
		}
		s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{piecesHandler(len(wholeFile), nil, asItIs)}}
		if err := serveScript(t, s).DownloadFile(t.Context(), "gen_1", path); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]byte{path: wholeFile, other: []byte("mine")} {
			if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) { //nolint:gosec // the files are in temporary directories of the test
				t.Errorf("%s does not have the wanted content; it has %d bytes, %v", name, len(got), err)
			}
		}
	})
}

func TestDownloadRejectsDamagedBytes(t *testing.T) {
	for name, serve := range map[string]func(*easelv1.DownloadGenerationRequest, downloadStream) error{
		"crc":           piecesHandler(len(wholeFile), nil, func(c *easelv1.ContentChunk) { c.Crc32C++ }),
		"offset":        piecesHandler(len(wholeFile), nil, func(c *easelv1.ContentChunk) { c.Offset++ }),
		"missing bytes": piecesHandler(len(wholeFile)-10, nil, asItIs),
		"digest": piecesHandler(len(wholeFile), nil, func(c *easelv1.ContentChunk) {
			if c.GetSummary() != nil {
				c.Summary.Sha256 = "0"
			}
		}),
		"size in the summary": piecesHandler(len(wholeFile), nil, func(c *easelv1.ContentChunk) {
			if c.GetSummary() != nil {
				c.Summary.SizeBytes++
			}
		}),
		"size in the info": piecesHandler(len(wholeFile), nil, func(c *easelv1.ContentChunk) {
			if c.GetInfo() != nil {
				*c.Info.SizeBytes = 5
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{serve}}
				path := filepath.Join(t.TempDir(), "file")
				if err := serveScript(t, s).DownloadFile(t.Context(), "gen_1", path); status.Code(err) != codes.DataLoss || len(s.calls) != 1 {
					t.Errorf("got %d calls, want 1; the error is %v, want DataLoss", len(s.calls), err)
				}
				if left, err := filepath.Glob(path + "*"); len(left) > 0 || err != nil {
					t.Errorf("after the error, these files remain: %v, %v", left, err)
				}
			})
		})
	}
}

func TestConcurrentDownloadsLeaveOneCompleteFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := make(chan struct{})
		var begun sync.WaitGroup
		begun.Add(2)
		go func() { begun.Wait(); close(both) }()
		s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{
			func(request *easelv1.DownloadGenerationRequest, stream downloadStream) error {
				err := piecesHandler(1000, nil, asItIs)(request, stream)
				begun.Done()
				<-both
				request.ReadOffset, request.Etag = 1000, "bytes-1"
				return errors.Join(err, piecesHandler(len(wholeFile), nil, asItIs)(request, stream))
			},
		}}
		client, path := serveScript(t, s), filepath.Join(t.TempDir(), "file")
		var ended sync.WaitGroup
		for range 2 {
			ended.Go(func() {
				if err := client.DownloadFile(t.Context(), "gen_1", path); err != nil {
					t.Error(err)
				}
			})
		}
		ended.Wait()
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, wholeFile) {
			t.Errorf("the file has %d bytes, which differ from the content, or can't be read: %v", len(got), err)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
			t.Errorf("the directory contains %v, want only the file", left)
		}
	})
}

func TestDownloadToUnseekableWriterIsNotRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{
			piecesHandler(1500, status.Error(codes.Unavailable, "a cut"), withoutEtag), piecesHandler(len(wholeFile), nil, withoutEtag),
		}}
		if err := serveScript(t, s).Download(t.Context(), "gen_1", io.Discard); err == nil || len(s.calls) != 1 {
			t.Errorf("got %d calls, want 1; the error is %v", len(s.calls), err)
		}
	})
}

func TestFetchOptionsTakeEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{piecesHandler(len(wholeFile), nil, asItIs)}}
		if _, err := serveScript(t, s).Fetch(t.Context(), "gen_1", path, easel.FetchOptions{Keep: true}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("with Keep and an existing file, Fetch returned %v, want fs.ErrExist", err)
		}
		if got, _ := os.ReadFile(path); string(got) != "mine" {
			t.Errorf("the content of the file is now %q, want \"mine\"", got)
		}
		unready := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{
			piecesHandler(0, serverError(codes.FailedPrecondition, "CONTENT_NOT_READY", "", time.Second), asItIs),
		}}
		_, err := serveScript(t, unready).Fetch(t.Context(), "gen_1", path, easel.FetchOptions{Wait: -1})
		if ready := (*easel.NotReadyError)(nil); !errors.As(err, &ready) || len(unready.calls) != 1 {
			t.Errorf("got %d calls, want 1; the error is %v, want a NotReadyError", len(unready.calls), err)
		}
	})
}

func TestFetchRejectsUnsafeFileNames(t *testing.T) {
	for name, safe := range map[string]bool{"gen_1.png": true, "../x": false, ".bashrc": false, "": false, "a/b": false, `a\b`: false, "a\nb": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{piecesHandler(len(wholeFile), nil, func(c *easelv1.ContentChunk) {
					if c.GetInfo() != nil {
						c.Info.FileName = name
					}
				})}}
				dir := t.TempDir()
				_, err := serveScript(t, s).Fetch(t.Context(), "gen_1", dir, easel.FetchOptions{})
				left, _ := os.ReadDir(dir)
				if safe != (err == nil) || safe != (len(left) == 1) {
					t.Errorf("got the error %v and the files %v; want one file if the name is safe, otherwise an error and no file", err, left)
				}
			})
		})
	}
}

func TestDownloadFailsIfItCannotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{piecesHandler(len(wholeFile), nil, asItIs)}}
		reader, writer := io.Pipe()
		_ = reader.Close()
		if err := serveScript(t, s).Download(t.Context(), "gen_1", writer); !errors.Is(err, io.ErrClosedPipe) || len(s.calls) != 1 {
			t.Errorf("got %d calls, want 1; the error is %v, want io.ErrClosedPipe", len(s.calls), err)
		}
	})
}

func TestWrittenFileIsCompleteOrUnchanged(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		name  string
		keep  bool
		want  string
		fails bool
	}{
		"new":                          {"a.txt", true, "whole", false},
		"an existing file is replaced": {"b.txt", false, "whole", false},
		"an existing file is kept":     {"c.txt", true, "old", true},
		"no file can be created":       {strings.Repeat("d", 255), false, "old", true},
		"a link is replaced":           {"link", false, "whole", false},
	} {
		path := filepath.Join(dir, test.name)
		if name != "new" && test.name != "link" {
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if test.name == "link" {
			if err := os.Symlink("nowhere", path); err != nil {
				t.Fatal(err)
			}
		}
		err := easel.WriteFile(path, []byte("whole"), test.keep)
		if got, _ := os.ReadFile(path); (err != nil) != test.fails || string(got) != test.want || test.keep && test.fails && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: the file contains %q, and WriteFile returned %v", name, got, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) > 0 {
		t.Errorf("these part files remain: %q", left)
	}
	if exists, err := os.Lstat(filepath.Join(dir, "nowhere")); err == nil {
		t.Errorf("WriteFile followed a link and created %v", exists.Name())
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"WriteFile": easel.WriteFile(fifo, nil, false), "DownloadFile": serveScript(t, &script{}).DownloadFile(t.Context(), "gen_1", fifo),
	} {
		if !errors.Is(err, easel.ErrNotRegular) {
			t.Errorf("%s returned %v for a FIFO, want ErrNotRegular", name, err)
		}
	}
}
