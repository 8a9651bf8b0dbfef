package content_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/proctest"
)

// bucketClient creates a bucket and returns a client for it, which is independent of the store's client.
func bucketClient(t *testing.T, server *proctest.Bucket, bucket string) minio.Core {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", proctest.BucketKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", proctest.BucketSecret)
	at, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	client, err := minio.New(at.Host, &minio.Options{Creds: credentials.NewEnvAWS(), Region: "us-east-1", BucketLookup: minio.BucketLookupPath})
	if err != nil {
		t.Fatal(err)
	}
	proctest.Eventually(t, time.Minute, "the bucket is created", func() bool { // when the server starts, it accepts requests before it can create buckets
		err = client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{})
		return err == nil
	}, func() string { return fmt.Sprint(err) })
	return minio.Core{Client: client}
}

// objectNames returns the names of all objects with a prefix, sorted.
func objectNames(t *testing.T, store content.Store, prefix string) (all []string) {
	t.Helper()
	for object, err := range store.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, object.Name)
		if age := time.Since(object.Time); age > time.Hour || age < -time.Minute {
			t.Errorf("the listed object is %+v", object)
		}
	}
	slices.Sort(all)
	return all
}

// failing is a body that returns an error at its end, instead of io.EOF.
type failing struct{ io.Reader }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("body failed")
	}
	return n, err
}

func testStore(t *testing.T, store content.Store) {
	ctx, large := t.Context(), picture(12<<20)
	if _, _, err := store.Get(ctx, "a/aa/none", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening a missing object returns %v", err)
	}
	if _, err := store.Size(ctx, "a/aa/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the size of a missing object returns %v", err)
	}
	if err := store.Delete(ctx, "a/aa/none"); err != nil {
		t.Errorf("deleting a missing object returns %v", err)
	}
	for name, one := range map[string]struct {
		data []byte
		size int64
	}{"a/aa/small-1": {picture(1000), 1000}, "a/aa/large-1": {large, int64(len(large))}, "a/ab/large-2": {large, -1}, "b/aa/small-1": {picture(10), -1}} {
		if written, err := store.Put(ctx, name, bytes.NewReader(one.data), one.size); err != nil || written != int64(len(one.data)) {
			t.Fatal(name, written, err)
		}
		if size, err := store.Size(ctx, name); err != nil || size != int64(len(one.data)) {
			t.Errorf("%s has %d bytes, %v", name, size, err)
		}
		for _, offset := range []int{0, 1, len(one.data) - 1} {
			body, size, err := store.Get(ctx, name, int64(offset))
			if err != nil {
				t.Fatal(name, offset, err)
			}
			if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, one.data[offset:]) || size != int64(len(one.data)) {
				t.Errorf("%s from offset %d: %d bytes, %v", name, offset, len(got), err)
			}
			_ = body.Close()
		}
	}
	for name, size := range map[string]int64{"a/aa/broken-1": int64(len(large)) + 1, "a/aa/broken-2": -1} {
		if _, err := store.Put(ctx, name, failing{bytes.NewReader(large)}, size); err == nil {
			t.Errorf("%s is written although reading its body failed", name)
		}
		if _, err := store.Size(ctx, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s exists: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := store.Put(ended, "a/aa/ended", bytes.NewReader(large), -1); err == nil {
		t.Error("an object is written although its context is done")
	}
	if got, want := objectNames(t, store, "a/"), []string{"a/aa/large-1", "a/aa/small-1", "a/ab/large-2"}; !slices.Equal(got, want) {
		t.Errorf("the objects below a/ are %q, want large-1, small-1 and large-2", got)
	}
	if got, want := objectNames(t, store, "a/aa/small-"), []string{"a/aa/small-1"}; !slices.Equal(got, want) {
		t.Errorf("the objects with the prefix a/aa/small- are %q, want small-1", got)
	}
	if err := store.Delete(ctx, "a/aa/small-1"); err != nil {
		t.Error(err)
	}
	if got := objectNames(t, store, "a/aa/small-"); len(got) != 0 {
		t.Errorf("after the deletion the names are %q", got)
	}
}

func TestDirectoryWorksAsContentStore(t *testing.T) {
	store, err := content.OpenStore("file:"+t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	testStore(t, store)
}

func TestBucketWorksAsContentStore(t *testing.T) {
	server := proctest.StartBucket(t)
	core := bucketClient(t, server, "easel-results")
	store, err := content.OpenStore(server.URL("easel-results"), false)
	if err != nil {
		t.Fatal(err)
	}
	testStore(t, store)
	for _, name := range []string{"results/b/aa/others-1", "results/b/aa/erased-1", "others"} {
		upload, err := core.NewMultipartUpload(t.Context(), "easel-results", name, minio.PutObjectOptions{})
		if err == nil {
			_, err = core.PutObjectPart(t.Context(), "easel-results", name, upload, 1, bytes.NewReader(picture(5<<20)), 5<<20, minio.PutObjectPartOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if all := objectNames(t, store, "b/aa/"); !slices.Equal(all, []string{"b/aa/erased-1", "b/aa/others-1", "b/aa/small-1"}) {
		t.Errorf("the bucket has the objects and incomplete uploads %q", all)
	}
	if err := store.Delete(t.Context(), "b/aa/erased-1"); err != nil {
		t.Fatal(err)
	}
	var left []string
	for upload := range core.ListIncompleteUploads(t.Context(), "easel-results", "", true) {
		left = append(left, upload.Key)
	}
	if slices.Sort(left); !slices.Equal(left, []string{"others", "results/b/aa/others-1"}) {
		t.Errorf("the incomplete uploads are %q", left)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
	if other, err := content.OpenStore(server.URL("easel-results"), false); err != nil {
		t.Fatal(err)
	} else if _, err := other.Put(t.Context(), "a/aa/y", strings.NewReader("a"), 1); err == nil || !strings.Contains(err.Error(), "403") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong secret returns %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", proctest.BucketSecret)
	server.Kill()
	if _, err := store.Put(t.Context(), "a/aa/x", strings.NewReader("x"), 1); err == nil {
		t.Error("an object is written although the server is down")
	}
	server.Start(t)
	proctest.Eventually(t, time.Minute, "the object is readable after the server was killed and restarted", func() bool {
		body, _, err := store.Get(t.Context(), "a/aa/large-1", 0)
		if err != nil {
			return false
		}
		defer body.Close()
		got, err := io.ReadAll(body)
		return err == nil && bytes.Equal(got, picture(12<<20))
	})
}

// discardObjects handles S3 requests. It accepts objects but does not store them.
func discardObjects(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("ETag", `"`+strings.Repeat("0", 32)+`"`)
	if r.Method == http.MethodPost {
		root := map[bool]string{true: "InitiateMultipartUploadResult", false: "CompleteMultipartUploadResult"}[r.URL.Query().Has("uploads")]
		_, _ = fmt.Fprintf(w, "<%[1]s><Bucket>results</Bucket><Key>x</Key><UploadId>1</UploadId><ETag>0</ETag></%[1]s>", root)
	}
}

// While a large result is copied, only a small part of it may be in memory.
func TestCopyOfALargeResultNeedsLittleMemory(t *testing.T) {
	const size = 64 << 20
	server := httptest.NewServer(http.HandlerFunc(discardObjects))
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", proctest.BucketKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", proctest.BucketSecret)
	for _, address := range []string{"file:" + t.TempDir(), (&proctest.Bucket{Endpoint: server.URL}).URL("results")} {
		for _, announced := range []int64{size, -1} {
			store, err := content.OpenStore(address, false)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			written, err := store.Put(t.Context(), "a/aa/large", io.LimitReader(rand.NewChaCha8([32]byte{}), size), announced)
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; err != nil || written != size || grown > size/2 {
				t.Errorf("%s: writing %d bytes allocated %d bytes, want at most half as many; error %v", address, written, grown, err)
			}
		}
	}
}

func TestContentStoreAddressIsValidatedStrictly(t *testing.T) {
	for address, ok := range map[string]bool{
		"file:/var/lib/easel/results": true, "file:results": true, "s3://bucket": true, "s3://my.bucket-1/a/b?region=eu-central-1": true,
		"s3://bucket?endpoint=http://127.0.0.1:9000": true, "s3://bucket?endpoint=https%3A%2F%2Fs3.example&region=x": true,
		"": false, "file:": false, "s3:bucket": false, "s3://": false, "s3://a": false, "s3://Bucket": false, "s3://bucket/a//b": false, "s3://bucket/a%20b": false,
		"s3://key:hunter2@bucket": false, "s3://bucket?endpoint=minio:9000": false, "s3://bucket?endpoint=https://s3.example/path": false,
		"s3://bucket?endpoint=http://localhost:9000": true, "s3://bucket?endpoint=http://[::1]:9000": true, "s3://bucket?endpoint=http://s3.example": false, "s3://bucket?endpoint=http://127.0.0.1.example": false,
		"s3://bucket?secret=hunter2": false, "s3://bucket?style=host": false, "s3://bucket#x": false, "https://bucket": false,
	} {
		err := content.Check(address, false)
		if (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "EASEL_CONTENT_URL")) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if err := content.Check("s3://bucket?endpoint=http://s3.example", true); err != nil {
		t.Errorf("http is rejected although it is allowed: %v", err)
	}
}
