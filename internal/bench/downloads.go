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

// measure gives what a second or a GB of downloads came to.
type measure func(bytes float64, cpu, took time.Duration) float64

func rate(bytes float64, _, took time.Duration) float64    { return bytes / 1e6 / took.Seconds() }
func cpuPerGB(bytes float64, cpu, _ time.Duration) float64 { return cpu.Seconds() / (bytes / 1e9) }

// downloaded measures downloads by gRPC, read by raw frames, from an offset on: of a part
// there is no SHA-256.
func downloaded(set setting, offset int64, m measure) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		s, size, err := b.results(ctx, set)
		if err != nil {
			return 0, err
		}
		defer s.stop()
		c, err := connect(s.server.addrs["grpc"], 1, 4<<20)
		if err != nil {
			return 0, err
		}
		defer c.close()
		return s.repeated(m, func() (int, error) { return c.fetch(ctx, size, offset) })
	}
}

// repeated measures what one download is, after one to warm up.
func (s *scene) repeated(m measure, one func() (int, error)) (float64, error) {
	if _, err := one(); err != nil {
		return 0, err
	}
	before, err := s.server.cpu()
	if err != nil {
		return 0, err
	}
	begin, bytes := time.Now(), 0
	for range downloads {
		n, err := one()
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	took := time.Since(begin)
	after, err := s.server.cpu()
	return m(float64(bytes), after-before, took), err
}

// fetch downloads the result once, and gives how many bytes came.
func (c *crowd) fetch(ctx context.Context, size int, offset int64) (int, error) {
	var got int
	done := make(chan string, 1)
	stream := &h2stream{
		bytes: func(_ *h2stream, n int) { got += n },
		done:  func(s *h2stream, _ time.Time) { done <- s.status },
	}
	conn := c.conns[0]
	if err := conn.call(download, &easelv1.DownloadGenerationRequest{GenerationId: "r0", ReadOffset: offset}, stream); err != nil {
		return 0, err
	}
	if err := conn.flush(); err != nil {
		return 0, err
	}
	select {
	case status := <-done:
		if status != "0" || got < size-int(offset) {
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

// fetched measures downloads over HTTP: at a path of the server, or from the catalog itself
// where it is empty.
func fetched(set setting, path string, m measure) side {
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
		return s.repeated(m, func() (int, error) { return size, fetchURL(ctx, url, size) })
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
