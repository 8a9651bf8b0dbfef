package content

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3 is a store in a bucket. Its keys come from the environment of the process, like those of S3's own tools: variables, a
// file, or the role of the machine.
type s3 struct {
	core   minio.Core
	bucket string
	prefix string // prefix of each name, with a trailing slash; or empty
}

// partSize is the size of the parts of a large object in bytes. It is the minimum, because a copy buffers one part.
const partSize = 5 << 20

// s3Retries is the maximum number of attempts of a request.
const s3Retries = 3

// bucketForm matches the name of a bucket.
var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// prefixForm matches the prefix of the names in a bucket.
var prefixForm = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$`)

// s3Place is the location of a bucket.
type s3Place struct {
	endpoint *url.URL
	bucket   string
	prefix   string
	region   string
	path     bool // the bucket is in the path and not in the host name
}

// parseS3 parses s3://BUCKET/PREFIX?endpoint=URL&region=NAME&style=path.
func parseS3(address string) (at s3Place, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "s3" || u.User != nil || u.Fragment != "" {
		return at, errors.New("EASEL_CONTENT_URL must be " + Form + ", without a user: keys come from the environment")
	}
	query := u.Query()
	for name := range query {
		if name != "endpoint" && name != "region" && name != "style" {
			return at, fmt.Errorf("EASEL_CONTENT_URL: %q is no parameter; it may have endpoint, region and style", name)
		}
	}
	at = s3Place{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), region: query.Get("region")}
	if !bucketForm.MatchString(at.bucket) || at.prefix != "" && !prefixForm.MatchString(at.prefix) {
		return at, errors.New("EASEL_CONTENT_URL: it names no bucket, or a prefix with other characters than letters, digits, dots, dashes, underscores and slashes")
	}
	switch style := query.Get("style"); style {
	case "", "path":
		at.path = style == "path" || query.Has("endpoint")
	case "host":
	default:
		return at, errors.New("EASEL_CONTENT_URL: style must be path or host")
	}
	at.endpoint, err = url.Parse(cmp.Or(query.Get("endpoint"), "https://s3.amazonaws.com"))
	if err != nil || at.endpoint.Host == "" || at.endpoint.Scheme != "http" && at.endpoint.Scheme != "https" || strings.Trim(at.endpoint.Path, "/") != "" {
		return at, errors.New("EASEL_CONTENT_URL: endpoint must be http://HOST or https://HOST")
	}
	return at, nil
}

// openS3 returns the store of a bucket. It sends no requests.
func openS3(at s3Place) (Store, error) {
	lookup := minio.BucketLookupDNS
	if at.path {
		lookup = minio.BucketLookupPath
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: storeTimeout,
		ResponseHeaderTimeout: time.Minute, DisableCompression: true,
	}
	client, err := minio.New(at.endpoint.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Transport: transport}},
		}),
		Secure: at.endpoint.Scheme == "https", Region: at.region, BucketLookup: lookup, Transport: transport, MaxRetries: s3Retries,
	})
	if err != nil {
		return nil, fmt.Errorf("EASEL_CONTENT_URL: %w", err)
	}
	store := s3{core: minio.Core{Client: client}, bucket: at.bucket}
	if at.prefix != "" {
		store.prefix = at.prefix + "/"
	}
	return store, nil
}

// Put implements [Store].
func (s s3) Put(ctx context.Context, name string, body io.Reader, size int64) error {
	_, err := s.core.Client.PutObject(ctx, s.bucket, s.prefix+name, body, size, minio.PutObjectOptions{
		ContentType: "application/octet-stream", PartSize: partSize, NumThreads: 1, SendContentMd5: true,
	})
	return said(err)
}

// Get implements [Store].
func (s s3) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	var options minio.GetObjectOptions
	if offset > 0 {
		options.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	}
	body, info, _, err := s.core.GetObject(ctx, s.bucket, s.prefix+name, options)
	if err != nil {
		return nil, 0, said(err)
	}
	return body, offset + info.Size, nil
}

// Size implements [Store].
func (s s3) Size(ctx context.Context, name string) (int64, error) {
	info, err := s.core.StatObject(ctx, s.bucket, s.prefix+name, minio.StatObjectOptions{})
	return info.Size, said(err)
}

// Delete implements [Store].
func (s s3) Delete(ctx context.Context, name string) error {
	err := said(s.core.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrAbsent) {
		return nil
	}
	return err
}

// List implements [Store].
func (s s3) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // stops a listing that is left early
		for info := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
			object := Object{strings.TrimPrefix(info.Key, s.prefix), info.Size, info.LastModified}
			if !yield(object, said(info.Err)) || info.Err != nil {
				return
			}
		}
	}
}

// Clean implements [Store]. It aborts incomplete uploads, and continues after a failure.
func (s s3) Clean(ctx context.Context, prefix string, before time.Time) (failed error) {
	for upload := range s.core.ListIncompleteUploads(ctx, s.bucket, s.prefix+prefix, true) {
		err := upload.Err
		if err == nil && (before.IsZero() || upload.Initiated.Before(before)) {
			err = s.core.AbortMultipartUpload(ctx, s.bucket, upload.Key, upload.UploadID)
		}
		if err != nil && !errors.Is(said(err), ErrAbsent) {
			failed = said(err)
		}
	}
	return failed
}

// said returns an error of the bucket with only its code, because the rest may contain the request.
func said(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	switch {
	case !ok:
		return err
	case answer.Code == minio.NoSuchKey || answer.Code == minio.NoSuchUpload:
		return ErrAbsent
	}
	return fmt.Errorf("the bucket answers %d %s", answer.StatusCode, answer.Code)
}
