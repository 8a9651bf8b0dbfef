package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	resultBytes  = 256 << 20
	downloads    = 6 // of the result, one after the other
	stallStreams = 400
	stallWindow  = 64 << 10
)

// results makes a scene with one render that has a result.
func (b *bench) results(ctx context.Context, set setting) (*scene, int, error) {
	s, err := b.scene(ctx, set)
	if err != nil {
		return nil, 0, err
	}
	size := b.load(resultBytes)
	if err = s.control(ctx, "/content?bytes=%d", size); err == nil {
		err = s.control(ctx, "/renders?prefix=r&n=1&median=1ms&sigma=0")
	}
	if err != nil {
		s.stop()
		return nil, 0, err
	}
	time.Sleep(5 * time.Millisecond) // the render is done
	return s, size, nil
}

// downloadRate measures MB a second of downloads by gRPC, read by raw frames.
func downloadRate(set setting) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		bytes, _, took, err := b.download(ctx, set)
		return bytes / 1e6 / took.Seconds(), err
	}
}

// downloadCPU measures what a GB of them costs the server.
func downloadCPU(set setting) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		bytes, cpu, _, err := b.download(ctx, set)
		return cpu.Seconds() / (bytes / 1e9), err
	}
}

func (b *bench) download(ctx context.Context, set setting) (bytes float64, cpu, took time.Duration, err error) {
	s, size, err := b.results(ctx, set)
	if err != nil {
		return 0, 0, 0, err
	}
	defer s.stop()
	c, err := connect(s.server.addrs["grpc"], 1, 4<<20)
	if err != nil {
		return 0, 0, 0, err
	}
	defer c.close()
	if _, err := c.fetch(ctx, size); err != nil { // to warm up
		return 0, 0, 0, err
	}
	before, err := s.server.cpu()
	if err != nil {
		return 0, 0, 0, err
	}
	begin := time.Now()
	for range downloads {
		n, err := c.fetch(ctx, size)
		if err != nil {
			return 0, 0, 0, err
		}
		bytes += float64(n)
	}
	took = time.Since(begin)
	after, err := s.server.cpu()
	return bytes, after - before, took, err
}

// fetch downloads the result once, and gives how many bytes came.
func (c *crowd) fetch(ctx context.Context, size int) (int, error) {
	var got int
	done := make(chan string, 1)
	stream := &h2stream{
		bytes: func(_ *h2stream, n int) { got += n },
		done:  func(s *h2stream, _ time.Time) { done <- s.status },
	}
	conn := c.conns[0]
	if err := conn.call(download, &easelv1.DownloadGenerationRequest{GenerationId: "r0"}, stream); err != nil {
		return 0, err
	}
	if err := conn.flush(); err != nil {
		return 0, err
	}
	select {
	case status := <-done:
		if status != "0" || got < size {
			return got, fmt.Errorf("a download of %d bytes ended with %d and status %s", size, got, status)
		}
		return got, nil
	case err := <-c.failed:
		return 0, err
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(patience):
		return 0, fmt.Errorf("a download stopped at %d of %d bytes", got, size)
	}
}

// fetchRate measures MB a second over HTTP: at a path of the server, or from the catalog
// itself where it is empty.
func fetchRate(set setting, path string) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		s, size, err := b.results(ctx, set)
		if err != nil {
			return 0, err
		}
		defer s.stop()
		url := "http://" + s.server.addrs["http"] + strings.ReplaceAll(path, "{id}", "r0")
		if path == "" {
			url = s.upstream() + "/generations/r0/content"
		}
		if err := fetchURL(ctx, url, size); err != nil {
			return 0, err
		}
		begin := time.Now()
		for range downloads {
			if err := fetchURL(ctx, url, size); err != nil {
				return 0, err
			}
		}
		return float64(downloads*size) / 1e6 / time.Since(begin).Seconds(), nil
	}
}

// fetchURL reads an answer in pieces of 256 KiB.
func fetchURL(ctx context.Context, url string, size int) error {
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

// stalled measures the live heap of a download whose reader has stopped.
func stalled(set setting) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		s, _, err := b.results(ctx, set)
		if err != nil {
			return 0, err
		}
		defer s.stop()
		c, err := connect(s.server.addrs["grpc"], 4, stallWindow)
		if err != nil {
			return 0, err
		}
		defer c.close()
		before, err := s.server.collect(ctx)
		if err != nil {
			return 0, err
		}
		streams := b.load(stallStreams)
		if err := c.stall(streams); err != nil {
			return 0, err
		}
		after, err := s.settled(ctx)
		return (after - before) / float64(streams), err
	}
}

// stall begins downloads and reads no more than the first window of each.
func (c *crowd) stall(streams int) error {
	for i := range streams {
		conn := c.conns[i%len(c.conns)]
		if err := conn.call(download, &easelv1.DownloadGenerationRequest{GenerationId: "r0"}, &h2stream{stalled: true, bytes: func(*h2stream, int) {}}); err != nil {
			return err
		}
		if err := conn.flush(); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until the live heap of the server no longer grows, and gives it.
func (s *scene) settled(ctx context.Context) (heap float64, err error) {
	for {
		time.Sleep(300 * time.Millisecond)
		now, err := s.server.collect(ctx)
		if err != nil || now < heap*1.02 {
			return now, err
		}
		heap = now
	}
}
