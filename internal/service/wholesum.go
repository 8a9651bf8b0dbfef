package service

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"

	"google.golang.org/grpc/mem"
)

// wholeSum is the SHA-256 of all bytes of a result. It takes as long as all else that is done
// with them, so that of large chunks is computed beside their sending: a download came at
// 1,000 instead of 820 MB/s so, for no more of the processor.
//
// To take it out, let add write every chunk itself.
type wholeSum struct {
	hash  hash.Hash
	queue chan mem.Buffer // nil until there was a large chunk
	open  sync.WaitGroup  // chunks that are to be written
}

func newWholeSum() *wholeSum { return &wholeSum{hash: sha256.New()} }

// add takes the next chunk. Whoever sends it may free it at once.
func (s *wholeSum) add(data mem.Buffer) {
	if data.Len() <= chunkSize {
		s.open.Wait()
		s.hash.Write(data.ReadOnlyData())
		return
	}
	if s.queue == nil {
		s.queue = make(chan mem.Buffer, 1)
		go s.work(s.queue)
	}
	data.Ref()
	s.open.Add(1)
	s.queue <- data
}

func (s *wholeSum) work(queue <-chan mem.Buffer) {
	for data := range queue {
		s.hash.Write(data.ReadOnlyData())
		data.Free()
		s.open.Done()
	}
}

// text is the sum of all that was added.
func (s *wholeSum) text() string {
	s.open.Wait()
	return hex.EncodeToString(s.hash.Sum(nil))
}

// stop ends it. Nothing may be added after. A nil one has nothing to end.
func (s *wholeSum) stop() {
	if s != nil && s.queue != nil {
		close(s.queue)
		s.open.Wait()
	}
}
