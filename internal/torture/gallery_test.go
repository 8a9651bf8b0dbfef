//go:build unix

package torture

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/promises"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// gallery is a complete installation of Easel that copies results to a store. It has several replicas with one ledger,
// a catalog and an S3 server. The test kills its processes.
type gallery struct {
	*testing.T
	ctx      context.Context //nolint:containedctx // context for calls, which contains the caller's token
	door     *catalogDoor
	bucket   *proctest.Bucket
	postgres *proctest.Postgres
	db       *sql.DB
	ledger   string // URL of the ledger
	settings proctest.Settings
	file     string // database file of the catalog
	catalog  *proctest.Process

	mu       sync.Mutex
	replicas [resultReplica]*proctest.Process
	conns    [resultReplica]*grpc.ClientConn
	results  map[string]int // number of each order, by generation ID
}

func openGallery(t *testing.T) *gallery {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", proctest.BucketKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", proctest.BucketSecret)
	g := &gallery{T: t, door: openCatalogDoor(t), bucket: proctest.StartBucket(t), file: filepath.Join(t.TempDir(), "catalog.db"), results: map[string]int{}}
	g.makeBucket()
	g.postgres = proctest.StartPostgres(t)
	g.ledger = g.postgres.Database(t)
	var err error
	if g.db, err = sql.Open("pgx", g.ledger); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.db.Close() })
	token, operator := auth.NewToken(), auth.NewToken()
	g.ctx = proctest.Bearing(t.Context(), token)
	g.settings = before(strings.TrimPrefix(g.door.URL, "http://")).With(proctest.Settings{
		"EASEL_UPSTREAM_KEY_FILE": proctest.File(t, key), "EASEL_LEDGER_URL": g.ledger, "EASEL_POLL_RATE": "20",
		"EASEL_CALLERS_FILE": proctest.File(t, `{"teams": {"studio": {}}, "callers": [{"name": "service", "team": "studio", "tokens": ["`+auth.Hash(token)+`"]}, {"name": "ops", "operator": true, "tokens": ["`+auth.Hash(operator)+`"]}]}`),
		"EASEL_API_KEY":      operator, // for commands
		"EASEL_CONTENT_URL":  g.bucket.URL("results"),
		"AWS_ACCESS_KEY_ID":  proctest.BucketKey, "AWS_SECRET_ACCESS_KEY": proctest.BucketSecret,
	})
	g.startCatalog()
	for n := range g.replicas {
		g.startReplica(n)
	}
	return g
}

func (g *gallery) makeBucket() {
	g.Helper()
	client, err := minio.New(strings.TrimPrefix(g.bucket.Endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4(proctest.BucketKey, proctest.BucketSecret, "")})
	if err != nil {
		g.Fatal(err)
	}
	eventually(g.T, "a bucket", func() bool { return client.MakeBucket(g.Context(), "results", minio.MakeBucketOptions{}) == nil })
}

func (g *gallery) startCatalog() {
	g.Helper()
	g.catalog = proctest.Sandbox(g.T, stored(g.file, "--speed", "1000")...)
	g.door.behind.Store(&g.catalog.HTTP)
}

func (g *gallery) startReplica(n int) {
	g.Helper()
	p := proctest.Serve(g.T, g.settings)
	conn := proctest.Dial(g.T, p.GRPC)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.replicas[n], g.conns[n] = p, conn
}

// client returns a client that is connected to a random replica.
func (g *gallery) client() easelv1.GenerationServiceClient {
	g.mu.Lock()
	defer g.mu.Unlock()
	return easelv1.NewGenerationServiceClient(g.conns[rand.IntN(len(g.conns))])
}

// picture is a model whose result is a file.
const picture = "studio/landscape"

// order places the n-th order. It retries while processes are killed.
func (g *gallery) order(n int) (id string, err error) {
	r := &easelv1.CreateGenerationRequest{ModelId: picture, IdempotencyKey: fmt.Sprint("result-", n), InputsJson: fmt.Sprintf(`{"prompt":"result %d","size":"64x40"}`, n)}
	if n%10 == 0 {
		r.ModelId, r.InputsJson = "studio/haiku", fmt.Sprintf(`{"prompt":"result %d"}`, n)
	}
	for {
		ctx, cancel := context.WithTimeout(g.ctx, 10*time.Second)
		answer, err := g.client().CreateGeneration(ctx, r)
		cancel()
		if err == nil {
			id = answer.GetGeneration().GetGenerationId()
			g.mu.Lock()
			g.results[id] = n
			g.mu.Unlock()
			return id, nil
		}
		if g.ctx.Err() != nil || !retryable(err) {
			return "", fmt.Errorf("order %d: %w", n, err)
		}
		pauseFor(g.ctx, 100*time.Millisecond)
	}
}

// copied returns the number of copies that are recorded in the ledger.
func (g *gallery) copied() (n int) { return g.count(`SELECT COUNT(*) FROM contents WHERE state = 1`) }

func (g *gallery) count(query string) (n int) {
	g.Helper()
	if err := g.db.QueryRowContext(g.Context(), query).Scan(&n); err != nil {
		g.Fatal(err)
	}
	return n
}

// awaitCopies waits until the ledger contains the wanted number of copies. If no copy is added for five seconds, it
// reads the unfinished generations, as their callers could do.
func (g *gallery) awaitCopies(want int, within time.Duration) {
	g.Helper()
	end, last, grown := time.Now().Add(within), 0, time.Now()
	for copied := g.copied(); copied < want; copied = g.copied() {
		switch {
		case time.Now().After(end):
			g.Fatalf("only %d of %d results are copied after %v\n%s", copied, want, within, tail(g.replicas[0]))
		case copied > last:
			last, grown = copied, time.Now()
		case time.Since(grown) > 5*time.Second:
			g.comeBack()
			grown = time.Now()
		}
		pauseFor(g.Context(), 50*time.Millisecond)
	}
}

// comeBack reads the generations whose end is not in the ledger, as their callers could do. A killed process may have
// delivered an end without recording it. The settlement job would take too long, because it reads only ten
// generations per minute.
func (g *gallery) comeBack() {
	g.Helper()
	var missing sql.NullString
	if err := g.db.QueryRowContext(g.Context(), `SELECT STRING_AGG(generation_id, ' ') FROM orders WHERE state = 2 AND status < 3`).Scan(&missing); err != nil {
		g.Fatal(err)
	}
	asking := errgroup.Group{}
	asking.SetLimit(atOnce)
	for id := range strings.FieldsSeq(missing.String) {
		asking.Go(func() error {
			_, err := g.client().GetGeneration(g.ctx, &easelv1.GetGenerationRequest{GenerationId: id})
			for ; retryable(err) && g.ctx.Err() == nil; pauseFor(g.ctx, 100*time.Millisecond) {
				_, err = g.client().GetGeneration(g.ctx, &easelv1.GetGenerationRequest{GenerationId: id})
			}
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		g.Error(err)
	}
}

// storm kills the replicas, the store and the catalog in turn while results are copied.
func (g *gallery) storm(results, rounds int) (kills int) {
	g.Helper()
	steps := 3 * rounds
	for n := range steps {
		g.awaitCopies(results*(n+1)/(steps+2), resultsWithin)
		switch n % 3 {
		case 0:
			for n, p := range g.replicas {
				p.Kill()
				g.startReplica(n)
			}
		case 1:
			g.bucket.Kill()
			pauseFor(g.Context(), time.Second)
			g.bucket.Start(g.T)
		case 2:
			g.catalog.Kill()
			pauseFor(g.Context(), time.Second)
			g.startCatalog()
		}
	}
	return steps
}

// wanted returns the digest of each result, which it reads directly from the catalog.
func (g *gallery) wanted(ids ...string) map[string]string {
	g.Helper()
	var mu sync.Mutex
	wanted, asking := map[string]string{}, errgroup.Group{}
	asking.SetLimit(atOnce)
	for _, id := range ids {
		asking.Go(func() error {
			digest, err := g.upstream(id)
			mu.Lock()
			defer mu.Unlock()
			wanted[id] = digest
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		g.Fatal(err)
	}
	return wanted
}

// upstream reads a result from the catalog without the proxy, and returns its digest.
func (g *gallery) upstream(id string) (digest string, err error) {
	client, err := catalog.New(catalog.Config{BaseURL: "http://" + g.catalog.HTTP + sandbox.BasePath, Transport: http.DefaultTransport})
	if err != nil {
		return "", err
	}
	cred := catalog.Forwarded(catalog.NewSecret(key))
	result, err := client.Generation(g.ctx, cred, id)
	if err != nil || result.Text != nil {
		return digestOf([]byte(*cmp.Or(result.Text, new("")))), err
	}
	file, err := client.Content(g.ctx, cred, id, 0, "")
	if err != nil {
		return "", err
	}
	defer file.Body.Close()
	data, err := io.ReadAll(file.Body)
	return digestOf(data), err
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// download downloads a result and returns its digest and its source.
func (g *gallery) download(id string) (digest string, from easelv1.ContentSource, err error) {
	ctx, cancel := context.WithTimeout(g.ctx, 2*time.Minute)
	defer cancel()
	stream, err := g.client().DownloadGeneration(ctx, &easelv1.DownloadGenerationRequest{GenerationId: id})
	sum := sha256.New()
	for err == nil {
		var m *easelv1.DownloadGenerationResponse
		if m, err = stream.Recv(); err == nil {
			sum.Write(m.GetChunk().GetData())
			if info := m.GetChunk().GetInfo(); info != nil {
				from = info.GetSource()
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return "", from, fmt.Errorf("%s: %w", id, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), from, nil
}

// downloadAll downloads results and checks their digests. It returns the number of results that came from copies.
func (g *gallery) downloadAll(wanted map[string]string) (copies int) {
	g.Helper()
	var mu sync.Mutex
	record, run := promises.Record{Begin: time.Now()}, promises.Run{Truth: map[string]promises.Truth{}}
	all := errgroup.Group{}
	all.SetLimit(atOnce)
	for id, want := range wanted {
		run.Truth[id] = promises.Truth{Owner: "studio", Digest: want}
		all.Go(func() error {
			got, from, err := g.download(id)
			record.Add(promises.Event{Actor: "studio.reader", Kind: promises.Downloaded, Generation: id, Text: got})
			mu.Lock()
			defer mu.Unlock()
			if from == easelv1.ContentSource_CONTENT_SOURCE_COPY {
				copies++
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		g.Error(err)
	}
	run.Events = record.Sorted()
	for _, b := range promises.Check(promises.All, &run) {
		g.Error(b)
	}
	return copies
}

// orderAll places count orders and waits until they have succeeded. It returns the generation IDs.
func (g *gallery) orderAll(from, count int) []string {
	g.Helper()
	ids, ordering := make([]string, count), errgroup.Group{}
	ordering.SetLimit(callersAtOnce)
	for n := range ids {
		ordering.Go(func() (err error) {
			if ids[n], err = g.order(from + n); err == nil {
				err = g.waitForEnd(ids[n])
			}
			return err
		})
	}
	if err := ordering.Wait(); err != nil {
		g.Error(err)
	}
	return ids
}

// waitForEnd waits until a generation has succeeded. It retries while processes are killed.
func (g *gallery) waitForEnd(id string) error {
	ctx, cancel := context.WithTimeout(g.ctx, 5*time.Minute)
	defer cancel()
	for {
		answer, err := g.client().WaitGeneration(ctx, &easelv1.WaitGenerationRequest{GenerationId: id, Timeout: durationpb.New(30 * time.Second)})
		switch state := answer.GetGeneration().GetState(); {
		case state == easelv1.State_STATE_SUCCEEDED:
			return nil
		case ctx.Err() != nil, err != nil && !retryable(err):
			return fmt.Errorf("waiting for %s ended in state %v: %w", id, state, err)
		}
		pauseFor(ctx, 100*time.Millisecond)
	}
}

// objects returns the names of all objects in the store.
func (g *gallery) objects() (names []string) {
	g.Helper()
	store, err := content.OpenStore(g.bucket.URL("results"), false)
	if err != nil {
		g.Fatal(err)
	}
	for object, err := range store.List(g.Context(), "") {
		if err != nil {
			g.Fatal(err)
		}
		names = append(names, object.Name)
	}
	return names
}

// awaitObjects waits until the store contains the wanted number of objects. Objects from failed uploads are deleted
// after a while.
func (g *gallery) awaitObjects(want int) {
	g.Helper()
	for end := time.Now().Add(healedWithin); ; pauseFor(g.Context(), time.Second) {
		if got := g.objects(); len(got) == want {
			return
		} else if time.Now().After(end) {
			g.Fatalf("the store has %d objects, want %d", len(got), want)
		}
	}
}
