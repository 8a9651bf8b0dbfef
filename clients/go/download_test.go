package easel_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

var whole = bytes.Repeat([]byte("easel"), 1000)

// pieces sends the bytes from an offset up to another, then an error.
func pieces(to int, end error, spoil func(*easelv1.ContentChunk)) func(*easelv1.DownloadGenerationRequest, downloadStream) error {
	return func(request *easelv1.DownloadGenerationRequest, stream downloadStream) error {
		if request.GetReadOffset() > 0 && request.GetEtag() != "bytes-1" {
			return status.Errorf(codes.FailedPrecondition, "the etag is %q", request.GetEtag())
		}
		size := int64(len(whole))
		for at := int(request.GetReadOffset()); at < to; at += 1000 {
			data := whole[at:min(at+1000, to)]
			chunk := &easelv1.ContentChunk{Offset: int64(at), Data: data, Crc32C: crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))}
			if at == int(request.GetReadOffset()) {
				chunk.Info = &easelv1.ContentInfo{Etag: "bytes-1", SizeBytes: &size}
			}
			if request.GetReadOffset() == 0 && at+1000 >= len(whole) {
				sum := sha256.Sum256(whole)
				chunk.Summary = &easelv1.ContentSummary{SizeBytes: size, Sha256: hex.EncodeToString(sum[:])}
			}
			spoil(chunk)
			if err := stream.Send(&easelv1.DownloadGenerationResponse{Chunk: chunk}); err != nil {
				return err
			}
		}
		return end
	}
}

func asItIs(*easelv1.ContentChunk) {}

func TestDownloadGoesOnWhereItBrokeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{
			pieces(0, failed(codes.FailedPrecondition, "CONTENT_NOT_READY", "", 1), asItIs),
			pieces(1500, status.Error(codes.Unavailable, "a cut"), asItIs),
			pieces(2500, failed(codes.Unavailable, "CONTENT_INTERRUPTED", "", 0), asItIs),
			pieces(len(whole), nil, asItIs),
		}}
		path := filepath.Join(t.TempDir(), "file")
		if err := play(t, s).DownloadFile(t.Context(), "gen_1", path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, whole) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

func TestDownloadFollowsNoLinkBesideItsFile(t *testing.T) { // D14
	synctest.Test(t, func(t *testing.T) {
		path, other := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "other")
		if err := errors.Join(os.WriteFile(other, []byte("mine"), 0o600), os.Symlink(other, path+".part")); err != nil {
			t.Fatal(err)
		}
		s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{pieces(len(whole), nil, asItIs)}}
		if err := play(t, s).DownloadFile(t.Context(), "gen_1", path); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]byte{path: whole, other: []byte("mine")} {
			if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) { //nolint:gosec // of this test
				t.Errorf("%s has %d bytes, %v", name, len(got), err)
			}
		}
	})
}

func TestDownloadTakesNoDamagedBytes(t *testing.T) {
	for name, serve := range map[string]func(*easelv1.DownloadGenerationRequest, downloadStream) error{
		"crc":    pieces(len(whole), nil, func(c *easelv1.ContentChunk) { c.Crc32C++ }),
		"offset": pieces(len(whole), nil, func(c *easelv1.ContentChunk) { c.Offset++ }),
		"short":  pieces(len(whole)-10, nil, asItIs),
		"digest": pieces(len(whole), nil, func(c *easelv1.ContentChunk) {
			if c.GetSummary() != nil {
				c.Summary.Sha256 = "0"
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{serve}}
				path := filepath.Join(t.TempDir(), "file")
				if err := play(t, s).DownloadFile(t.Context(), "gen_1", path); status.Code(err) != codes.DataLoss || len(s.calls) != 1 {
					t.Errorf("%d calls, %v", len(s.calls), err)
				}
				if left, err := filepath.Glob(path + "*"); len(left) > 0 || err != nil {
					t.Errorf("it leaves %v, %v", left, err)
				}
			})
		})
	}
}

func TestDownloadEndsWhereItCanNotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{pieces(len(whole), nil, asItIs)}}
		reader, writer := io.Pipe()
		_ = reader.Close()
		if err := play(t, s).Download(t.Context(), "gen_1", writer); !errors.Is(err, io.ErrClosedPipe) || len(s.calls) != 1 {
			t.Errorf("%d calls, %v", len(s.calls), err)
		}
	})
}
