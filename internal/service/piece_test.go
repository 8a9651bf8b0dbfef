package service

import (
	"bytes"
	"hash/crc32"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestAPieceIsTheMessageThatItStandsFor(t *testing.T) {
	size, now := int64(1<<40), time.Unix(1_780_000_000, 5)
	info := &easelv1.ContentInfo{ContentType: "image/png", FileName: "gen_1.png", Etag: "e", SizeBytes: &size}
	summary := &easelv1.ContentSummary{SizeBytes: size, Sha256: "00ff"}
	for name, chunk := range map[string]*easelv1.ContentChunk{
		"first":  {Info: info},
		"middle": {Offset: 1 << 33},
		"last":   {Offset: 1, Summary: summary},
		"only":   {Info: info, Summary: summary},
	} {
		for _, length := range []int{0, 1, 127, 128, 2000, chunkSize} {
			data := buffers.Get(length)
			copy(*data, bytes.Repeat([]byte("picture"), chunkSize/7+1))
			chunk := proto.CloneOf(chunk)
			chunk.Crc32C = crc32.Checksum(*data, castagnoli)
			whole := proto.CloneOf(chunk)
			whole.Data = bytes.Clone(*data)
			for field, message := range map[int]proto.Message{
				chunkOfDownload: &easelv1.DownloadGenerationResponse{Chunk: whole},
				chunkOfWatch:    &easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Content{Content: whole}, EmitTime: timestamppb.New(now)},
			} {
				p := Piece{chunk: chunk, data: mem.SliceBuffer(*data)}
				p.field = chunkOfDownload
				if field == chunkOfWatch {
					p.field, p.sent = chunkOfWatch, now
				}
				same := message.ProtoReflect().New().Interface()
				if err := proto.Unmarshal(p.Wire().Materialize(), same); err != nil || !proto.Equal(same, message) {
					t.Errorf("%s with %d bytes, in field %d: %v", name, length, field, err)
				}
				if !proto.Equal(p.Chunk(), whole) || p.Len() != length {
					t.Errorf("%s with %d bytes, without a wire, is another", name, length)
				}
				chunk.Data = nil
			}
			buffers.Put(data)
		}
	}
}

func BenchmarkAPieceOfADownload(b *testing.B) {
	body := bytes.Repeat([]byte("x"), chunkSize)
	b.Run("in a buffer that is used again", func(b *testing.B) {
		b.SetBytes(chunkSize)
		b.ReportAllocs()
		for b.Loop() {
			data := buffers.Get(chunkSize)
			copy(*data, body)
			wire = Piece{chunk: &easelv1.ContentChunk{Offset: 1 << 20, Crc32C: 7}, data: mem.NewBuffer(data, buffers), field: chunkOfDownload}.Wire()
			wire.Free()
		}
	})
	b.Run("in the generated message", func(b *testing.B) {
		b.SetBytes(chunkSize)
		b.ReportAllocs()
		for b.Loop() {
			data := make([]byte, chunkSize)
			copy(data, body)
			message, _ := proto.Marshal(&easelv1.DownloadGenerationResponse{Chunk: &easelv1.ContentChunk{Offset: 1 << 20, Crc32C: 7, Data: data}})
			wire = mem.BufferSlice{mem.SliceBuffer(message)}
		}
	})
}
