package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	resultBytes   = 128 << 20
	downloadCount = 4 // of the result, one after the other
)

// downloads measures the CPU of downloads by gRPC.
var downloads = &measurement{measure: func(ctx context.Context, s *scene) (figures, error) {
	size, often, err := s.downloadOften(ctx, s.download)
	if err != nil {
		return nil, err
	}
	cpu, err := growth(ctx, s.server.cpu, often)
	return figures{"download-cpu": cpu / (size / 1e9)}, err
}}

// downloadOften downloads a result once, to warm up, and gives what does so more often, and the bytes of that.
func (s *scene) downloadOften(ctx context.Context, download func(context.Context, int) error) (bytes float64, often func() error, err error) {
	size := s.load(resultBytes)
	s.catalog.addResult(size)
	return float64(downloadCount * size), func() (err error) {
		for range downloadCount {
			err = errors.Join(err, download(ctx, size))
		}
		return err
	}, download(ctx, size)
}

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
var restDownloads = &measurement{measure: func(ctx context.Context, s *scene) (figures, error) {
	size, often, err := s.downloadOften(ctx, s.downloadByREST)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	err = often()
	return figures{"rest-rate": size / 1e6 / time.Since(begin).Seconds()}, err
}}

func (s *scene) downloadByREST(ctx context.Context, size int) error {
	got, err := get(ctx, "http://"+s.server.addrs["http"]+"/v1/generations/g0/content", io.Discard)
	if err == nil && got < int64(size) {
		err = fmt.Errorf("a download of %d bytes ended after %d", size, got)
	}
	return err
}

// copies measures the rate of downloads by REST of a result that is copied, and beside it that of the catalog, asked directly.
var copies = &measurement{sides: sides{thePeer, withCopies}, measure: func(ctx context.Context, s *scene) (figures, error) {
	if err := s.order(ctx); err != nil {
		return nil, err
	}
	size := s.load(resultBytes)
	s.catalog.finish("g0", size)
	from := "http://" + s.address + basePath + "/generations/g0/content"
	if s.keepsCopies {
		from = "http://" + s.server.addrs["http"] + "/v1/generations/g0/content"
		if err := s.awaitCopy(ctx); err != nil {
			return nil, err
		}
	}
	bytes, begin := int64(0), time.Now()
	for range downloadCount {
		got, err := get(ctx, from, io.Discard)
		if err != nil {
			return nil, err
		}
		bytes += got
	}
	return figures{"copy-rate": float64(bytes) / 1e6 / time.Since(begin).Seconds()}, nil
}}

// awaitCopy waits until the result comes from its copy.
func (s *scene) awaitCopy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		asked, end := context.WithCancel(ctx)
		stream, err := s.client.DownloadGeneration(asked, &easelv1.DownloadGenerationRequest{GenerationId: "g0", WaitTimeout: durationpb.New(time.Minute)})
		var first *easelv1.DownloadGenerationResponse
		if err == nil {
			first, err = stream.Recv()
		}
		end()
		if err != nil || first.GetChunk().GetInfo().GetSource() == easelv1.ContentSource_CONTENT_SOURCE_COPY {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

const (
	stallCount = 400
	stallBytes = 16 << 20 // of the result: more than is ever on its way
)

// stalls measures the live memory of a download whose reader has stopped after the first window.
var stalls = &measurement{repeats: 3, measure: func(ctx context.Context, s *scene) (figures, error) {
	s.catalog.addResult(stallBytes)
	n := s.load(stallCount)
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
