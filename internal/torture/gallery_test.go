//go:build unix

package torture

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"

	easel "github.com/easel-grpc/easel/clients/go"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/promises"
)

// gallery is a complete Easel installation that copies results to a store: several replicas with one ledger, a catalog
// and an S3 server. The test kills the replicas, the catalog and the S3 server.
type gallery struct {
	*testing.T
	clients  []*easel.Client // each client connects to random running replicas
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
}

func openGallery(t *testing.T) *gallery {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", proctest.BucketKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", proctest.BucketSecret)
	g := &gallery{T: t, door: openCatalogDoor(t), bucket: proctest.StartBucket(t), file: filepath.Join(t.TempDir(), "catalog.db")}
	g.makeBucket()
	g.postgres = proctest.StartPostgres(t)
	g.ledger = g.postgres.Database(t)
	var err error
	if g.db, err = sql.Open("pgx", g.ledger); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.db.Close() })
	token, operator := auth.NewToken(), auth.NewToken()
	g.settings = before(strings.TrimPrefix(g.door.URL, "http://")).With(proctest.Settings{
		"EASEL_UPSTREAM_KEY_FILE": proctest.File(t, key), "EASEL_LEDGER_URL": g.ledger, "EASEL_POLL_RATE": "20",
		"EASEL_CALLERS_FILE": proctest.File(t, `{"teams": {"studio": {}}, "callers": [{"name": "service", "team": "studio", "tokens": ["`+auth.Hash(token)+`"]}, {"name": "ops", "operator": true, "tokens": ["`+auth.Hash(operator)+`"]}]}`),
		"EASEL_API_KEY":      operator, // commands authenticate as the operator
		"EASEL_CONTENT_URL":  g.bucket.URL("results"),
		"AWS_ACCESS_KEY_ID":  proctest.BucketKey, "AWS_SECRET_ACCESS_KEY": proctest.BucketSecret,
	})
	g.startCatalog()
	for n := range g.replicas {
		g.startReplica(n)
	}
	for range clientCount {
		client, err := easel.New(t.Context(), easel.WithAddress("localhost:1"), easel.WithAPIKey(token), easel.WithDialer(g.dial))
		if err != nil {
			t.Fatal(err)
		}
		g.clients = append(g.clients, client)
	}
	return g
}

func (g *gallery) makeBucket() {
	g.Helper()
	client, err := minio.New(strings.TrimPrefix(g.bucket.Endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4(proctest.BucketKey, proctest.BucketSecret, "")})
	if err != nil {
		g.Fatal(err)
	}
	awaitCondition(g.T, "a bucket", func() bool { return client.MakeBucket(g.Context(), "results", minio.MakeBucketOptions{}) == nil })
}

func (g *gallery) startCatalog() {
	g.Helper()
	g.catalog = proctest.Sandbox(g.T, storeFlags(g.file, "--speed", "1000")...)
	g.door.behind.Store(&g.catalog.HTTP)
}

func (g *gallery) startReplica(n int) {
	g.Helper()
	p := proctest.Serve(g.T, g.settings)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.replicas[n] = p
}

// dial connects to a random replica. It ignores the requested address.
func (g *gallery) dial(ctx context.Context, _ string) (net.Conn, error) {
	g.mu.Lock()
	address := g.replicas[rand.IntN(len(g.replicas))].GRPC
	g.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// client returns a random client. Clients retry while processes are killed.
func (g *gallery) client() *easel.Client { return g.clients[rand.IntN(len(g.clients))] }

// picture is a model whose result is a file.
const picture = "studio/landscape"

// placeOrder places the n-th order and waits until it has succeeded.
func (g *gallery) placeOrder(n int) (id string, err error) {
	order := easel.Order{Model: picture, Key: fmt.Sprint("result-", n), Inputs: map[string]any{"prompt": fmt.Sprint("result ", n), "size": "64x40"}}
	if n%10 == 0 {
		order.Model, order.Inputs = "studio/haiku", map[string]any{"prompt": fmt.Sprint("result ", n)}
	}
	render, err := g.client().Run(g.Context(), order)
	if err != nil {
		return "", fmt.Errorf("order %d: %w", n, err)
	}
	return render.GenerationID, nil
}

// copyCount returns the number of copies that are recorded in the ledger.
func (g *gallery) copyCount() (n int) {
	return g.count(`SELECT COUNT(*) FROM contents WHERE state = 1`)
}

func (g *gallery) count(query string) (n int) {
	g.Helper()
	if err := g.db.QueryRowContext(g.Context(), query).Scan(&n); err != nil {
		g.Fatal(err)
	}
	return n
}

// awaitCopies waits until the ledger contains at least want copies. It fails the test if this takes longer than the
// given time. If no copy is added for five seconds, a killed replica may have failed to record the end of a generation.
// awaitCopies then calls readUnfinished.
func (g *gallery) awaitCopies(want int, within time.Duration) {
	g.Helper()
	end, last, grown := time.Now().Add(within), 0, time.Now()
	for copied := g.copyCount(); copied < want; copied = g.copyCount() {
		switch {
		case time.Now().After(end):
			g.Fatalf("only %d of %d results are copied after %v\n%s", copied, want, within, tail(g.replicas[0]))
		case copied > last:
			last, grown = copied, time.Now()
		case time.Since(grown) > 5*time.Second:
			g.readUnfinished()
			grown = time.Now()
		}
		pauseFor(g.Context(), 50*time.Millisecond)
	}
}

// readUnfinished reads each generation that is still unfinished in the ledger, as a returning caller would. This is
// necessary because a replica may report the end of a generation to a caller and be killed before it records the end.
// The settlement job would take too long, because it reads only ten generations per minute.
func (g *gallery) readUnfinished() {
	g.Helper()
	var missing sql.NullString
	if err := g.db.QueryRowContext(g.Context(), `SELECT STRING_AGG(generation_id, ' ') FROM orders WHERE state = 2 AND status < 3`).Scan(&missing); err != nil {
		g.Fatal(err)
	}
	asking := errgroup.Group{}
	asking.SetLimit(atOnce)
	for id := range strings.FieldsSeq(missing.String) {
		asking.Go(func() error {
			_, err := g.client().Get(g.Context(), id)
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		g.Error(err)
	}
}

// runStorm kills and restarts the replicas, then the store, then the catalog, and repeats this while results are
// copied. results is the number of results, and rounds is the number of repetitions. runStorm returns the number of
// kill steps.
func (g *gallery) runStorm(results, rounds int) (kills int) {
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

// wantedDigests reads each result directly from the catalog. It returns the digests of the results, keyed by generation
// ID.
func (g *gallery) wantedDigests(ids ...string) map[string]string {
	g.Helper()
	wanted := map[string]string{}
	for _, id := range ids {
		read := func(path string) string {
			return proctest.Fetch(g.T, http.MethodGet, g.catalog.Catalog+"/generations/"+id+path, "", "Authorization", "Bearer "+key)
		}
		var record struct{ TextOutput *string }
		if err := json.Unmarshal([]byte(read("")), &record); err != nil {
			g.Fatal(err)
		}
		if record.TextOutput == nil {
			record.TextOutput = new(read("/content"))
		}
		wanted[id] = fmt.Sprintf("%x", sha256.Sum256([]byte(*record.TextOutput)))
	}
	return wanted
}

// downloadAll downloads results, and checks that their digests equal the given ones, which are keyed by generation ID.
// It returns the number of results that were served from copies.
func (g *gallery) downloadAll(wanted map[string]string) (copies int) {
	g.Helper()
	var mu sync.Mutex
	record, run := promises.Record{Begin: time.Now()}, promises.Run{Truth: map[string]promises.Truth{}}
	all, directory := errgroup.Group{}, g.TempDir()
	all.SetLimit(atOnce)
	for id, want := range wanted {
		run.Truth[id] = promises.Truth{Owner: "studio", Digest: want}
		all.Go(func() error {
			got, err := g.client().Fetch(g.Context(), id, filepath.Join(directory, id), easel.FetchOptions{})
			if err != nil {
				return err
			}
			record.Add(promises.Event{Actor: "studio.reader", Kind: promises.Downloaded, Generation: id, Text: got.SHA256})
			mu.Lock()
			defer mu.Unlock()
			if got.Source == "copy" {
				copies++
			}
			return nil
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

// orderAll places orders with consecutive numbers and waits until they have succeeded. It returns the generation IDs.
func (g *gallery) orderAll(from, count int) []string {
	g.Helper()
	ids, ordering := make([]string, count), errgroup.Group{}
	ordering.SetLimit(callersAtOnce)
	for n := range ids {
		ordering.Go(func() (err error) {
			ids[n], err = g.placeOrder(from + n)
			return err
		})
	}
	if err := ordering.Wait(); err != nil {
		g.Error(err)
	}
	return ids
}

// objects returns the names of all objects in the store's bucket.
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

// awaitObjects waits until the store contains the wanted number of objects. Objects from failed uploads may remain for
// a while before they are deleted.
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
