package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	resultBytes   = 128 << 20
	downloadCount = 4 // of the result, one after the other
)

// withResult has the stub serve one generation with a result.
func withResult(size int) []string {
	return []string{fmt.Sprint("/content?bytes=", size), "/generations?prefix=g&n=1&median=1ns&sigma=0"}
}

// downloads measures the CPU of downloads by gRPC.
var downloads = &measurement{measure: func(ctx context.Context, b *bench, f facade) (figures, error) {
	size := b.load(resultBytes)
	s, err := b.start(ctx, f, setting{catalog: withResult(size)})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.download(ctx, size); err != nil { // to warm up
		return nil, err
	}
	cpu, err := growth(ctx, s.server.cpu, func() (err error) {
		for range downloadCount {
			err = errors.Join(err, s.download(ctx, size))
		}
		return err
	})
	return figures{"download-cpu": cpu / (float64(downloadCount*size) / 1e9)}, err
}}

// download downloads the result once.
func (s *scene) download(ctx context.Context, size int) error {
	stream, err := s.client.DownloadGeneration(ctx, &easelv1.DownloadGenerationRequest{GenerationId: "g0"})
	got := 0
	for err == nil {
		var m *easelv1.DownloadGenerationResponse
		m, err = stream.Recv()
		got += len(m.GetChunk().GetData())
	}
	if got < size || !errors.Is(err, io.EOF) {
		return fmt.Errorf("a download of %d bytes ended after %d: %w", size, got, err)
	}
	return nil
}

// restDownloads measures the rate of downloads by REST.
var restDownloads = &measurement{measure: func(ctx context.Context, b *bench, f facade) (figures, error) {
	size := b.load(resultBytes)
	s, err := b.start(ctx, f, setting{catalog: withResult(size)})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	url := "http://" + s.server.addrs["http"] + "/v1/generations/g0/content"
	if err := fetch(ctx, url, size); err != nil { // to warm up
		return nil, err
	}
	begin := time.Now()
	for range downloadCount {
		err = errors.Join(err, fetch(ctx, url, size))
	}
	return figures{"rest-rate": float64(downloadCount*size) / 1e6 / time.Since(begin).Seconds()}, err
}}

// fetch downloads the result once by REST, in pieces of 256 KiB.
func fetch(ctx context.Context, url string, size int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+benchKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{response.Body}, make([]byte, 256<<10))
	if err == nil && (n < int64(size) || response.StatusCode != http.StatusOK) {
		err = fmt.Errorf("GET %s: %s after %d bytes", url, response.Status, n)
	}
	return err
}

const (
	stallCount = 400
	stallBytes = 16 << 20 // of the result: more than is ever on its way
)

// stalls measures the live memory of a download whose reader has stopped after the first window.
var stalls = &measurement{repeats: 3, measure: func(ctx context.Context, b *bench, f facade) (figures, error) {
	s, err := b.start(ctx, f, setting{catalog: withResult(stallBytes)})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	n := b.load(stallCount)
	bytes, err := growth(ctx, s.server.live, func() error {
		for range n {
			if _, err := s.client.DownloadGeneration(ctx, &easelv1.DownloadGenerationRequest{GenerationId: "g0"}); err != nil {
				return err
			}
		}
		return s.settle(ctx)
	})
	return figures{"stall-memory": bytes / 1e3 / float64(n)}, err
}}

// settle waits until the live memory of the facade no longer grows.
func (s *scene) settle(ctx context.Context) error {
	for before := 0.0; ; {
		time.Sleep(300 * time.Millisecond)
		now, err := s.server.live(ctx)
		if err != nil || now < before*1.02 {
			return err
		}
		before = now
	}
}
