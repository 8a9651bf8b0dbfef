//go:build linux

package torture

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

var (
	largeSize  = flag.Int64("large-size", 8<<20, "Size of each large result in bytes.")
	largeCount = flag.Int("large-results", 24, "Number of large results to copy and download concurrently.")
)

// largeGrowth returns the maximum memory in bytes for all copies and downloads of large results together. The maximum
// does not depend on the size of the results. It is at most half of the memory that would hold all downloads
// completely.
func largeGrowth() int64 { return min(200<<20, int64(*largeCount)**largeSize/2) }

// largeFile is a block of random bytes. A file of any size repeats this block.
type largeFile []byte

func newLargeFile() largeFile {
	block := make(largeFile, 1<<20-3) // an odd size, so that no two blocks of a copy are equal
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(block)
	return block
}

// ReadAt implements io.ReaderAt.
func (f largeFile) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		n += copy(p[n:], f[(at+int64(n))%int64(len(f)):])
	}
	return n, nil
}

// largeCatalog starts a catalog in which file is the result of every generation.
func largeCatalog(t *testing.T, file largeFile) (address string) {
	t.Helper()
	catalog := startCatalog(t, filepath.Join(t.TempDir(), "catalog.db"), "--speed", "1000")
	others := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", catalog.http }, ErrorHandler: cutOff,
	}
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/content") {
			others.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "video/mp4")
		w.Header().Set("ETag", `"large"`)
		http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(file, 0, *largeSize))
	}))
	t.Cleanup(door.Close)
	return door.Listener.Addr().String()
}

// largeStore is an S3 store that stores only the sizes of objects. The content of every object is file.
type largeStore struct {
	file largeFile

	mu    sync.Mutex
	sizes map[string]int64
}

func (s *largeStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.ParseInt(r.Header.Get("X-Amz-Decoded-Content-Length"), 10, 64)
	if err != nil {
		size = r.ContentLength // the upload is not signed in chunks
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	query := r.URL.Query()
	s.mu.Lock()
	switch {
	case query.Has("uploads"):
		s.sizes[r.URL.Path] = 0
	case r.Method == http.MethodPut:
		s.sizes[r.URL.Path] += size
	}
	stored, known := s.sizes[r.URL.Path]
	s.mu.Unlock()
	w.Header().Set("ETag", `"`+strings.Repeat("0", 32)+`"`)
	switch {
	case r.Method == http.MethodPost:
		root := map[bool]string{true: "InitiateMultipartUploadResult", false: "CompleteMultipartUploadResult"}[query.Has("uploads")]
		_, _ = fmt.Fprintf(w, "<%[1]s><Bucket>results</Bucket><Key>x</Key><UploadId>1</UploadId><ETag>0</ETag></%[1]s>", root)
	case r.Method == http.MethodPut:
	case !known:
		refuse(w, http.StatusNotFound, "NoSuchKey")
	default:
		http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), io.NewSectionReader(s.file, 0, stored))
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
}

// TestCopiesAndDownloadsOfLargeResultsHoldTheirMemory copies and downloads large results concurrently, and checks the
// process's peak resident memory.
func TestCopiesAndDownloadsOfLargeResultsHoldTheirMemory(t *testing.T) {
	file := newLargeFile()
	store := httptest.NewServer(&largeStore{file: file, sizes: map[string]int64{}})
	t.Cleanup(store.Close)
	facade := startFacade(t, largeCatalog(t, file), "EASEL_UPSTREAM_KEY_FILE="+writeFile(t, "key", key), "EASEL_LEDGER_URL=sqlite:"+filepath.Join(t.TempDir(), "ledger.db"),
		"EASEL_CONTENT_URL="+(&proctest.Bucket{Endpoint: store.URL}).URL("results"), "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "EASEL_CALLER_STREAMS=1000")
	l := &largeRun{T: t, pid: facade.Pid(), admin: facade.admin}
	for n := range l.conns {
		l.conns[n] = dial(t, facade)
	}
	first := l.order("warm", 1)
	l.awaitCopies(1)
	l.download(first)
	before := l.resident("VmRSS")

	began := time.Now()
	first = append(first, l.order("first", *largeCount-1)...)
	l.awaitCopies(*largeCount)
	l.order("second", *largeCount)
	l.download(first)
	l.awaitCopies(2 * *largeCount)
	most := l.resident("VmHWM")
	t.Logf("%d copies, and %d downloads at the time of as many copies, of %d MB each in %v: %d MB resident before, at most %d MB: %+d MB",
		2**largeCount, *largeCount, *largeSize>>20, time.Since(began).Round(time.Second), before>>20, most>>20, (most-before)>>20)
	if limit := largeGrowth(); most-before > limit {
		t.Errorf("the memory has grown by %d MB, more than %d", (most-before)>>20, limit>>20)
	}
}

// largeRun is a process that copies large results.
type largeRun struct {
	*testing.T
	pid   int
	admin string
	conns [4]*grpc.ClientConn
}

func (l *largeRun) client(n int) easelv1.GenerationServiceClient {
	return easelv1.NewGenerationServiceClient(l.conns[n%len(l.conns)])
}

// order places orders, and waits until their generations have ended.
func (l *largeRun) order(name string, count int) []string {
	l.Helper()
	ids, all := make([]string, count), errgroup.Group{}
	all.SetLimit(atOnce)
	for n := range ids {
		all.Go(func() error {
			answer, err := l.client(n).CreateGeneration(l.Context(), &easelv1.CreateGenerationRequest{
				ModelId: picture, IdempotencyKey: fmt.Sprint(name, n), InputsJson: `{"prompt":"sea","size":"64x40"}`,
			})
			if err != nil {
				return err
			}
			ids[n] = answer.GetGeneration().GetGenerationId()
			stream, err := l.client(n).WatchGeneration(l.Context(), &easelv1.WatchGenerationRequest{GenerationId: ids[n]})
			for err == nil {
				_, err = stream.Recv()
			}
			return unlessEOF(err)
		})
	}
	if err := all.Wait(); err != nil {
		l.Fatal(err)
	}
	return ids
}

// download downloads results concurrently.
func (l *largeRun) download(ids []string) {
	l.Helper()
	all := errgroup.Group{}
	for n, id := range ids {
		all.Go(func() error {
			stream, err := l.client(n).DownloadGeneration(l.Context(), &easelv1.DownloadGenerationRequest{GenerationId: id})
			size, from := int64(0), easelv1.ContentSource_CONTENT_SOURCE_UNSPECIFIED
			for err == nil {
				var m *easelv1.DownloadGenerationResponse
				m, err = stream.Recv()
				size += int64(len(m.GetChunk().GetData()))
				if info := m.GetChunk().GetInfo(); info != nil {
					from = info.GetSource()
				}
			}
			if err = unlessEOF(err); err == nil && (size != *largeSize || from != easelv1.ContentSource_CONTENT_SOURCE_COPY) {
				err = fmt.Errorf("%d bytes come from %v", size, from)
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		l.Error(err)
	}
}

// unlessEOF returns err, or nil if the stream has ended.
func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// awaitCopies waits until the process has copied the wanted number of results.
func (l *largeRun) awaitCopies(want int) {
	l.Helper()
	line := fmt.Sprintf("\neasel_content_copies_total{easel_content_outcome=\"copied\"} %d\n", want)
	for end := time.Now().Add(resultsWithin); ; pauseFor(l.Context(), 200*time.Millisecond) {
		answer, err := http.Get("http://" + l.admin + "/metrics") //nolint:noctx // the server is local
		if err != nil {
			l.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if strings.Contains(string(text), line) {
			return
		}
		if err != nil || time.Now().After(end) {
			l.Fatalf("there are not %d copies: %v\n%s", want, err, text)
		}
	}
}

// resident returns the process's memory statistic with the given name, in bytes.
func (l *largeRun) resident(name string) int64 {
	l.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", l.pid))
	if err != nil {
		l.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				l.Fatal(err)
			}
			return kib << 10
		}
	}
	l.Fatalf("there is no %s", name)
	return 0
}
