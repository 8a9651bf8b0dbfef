package content

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/easel-grpc/easel/internal/catalog"
)

// s3 is a store in an S3 bucket. Like the AWS tools, it takes its access keys from environment variables, from a credentials
// file, or from the role of the machine.
type s3 struct {
	core   minio.Core
	bucket string
	prefix string // prefix of the names of all objects; ends with a slash unless it is empty
}

// partSize is the size of each part of a multipart upload, in bytes. It is the minimum that S3 allows. A larger size would need
// more memory, because each copy buffers one part.
const partSize = 5 << 20

// s3Retries is the maximum number of attempts for a request. Despite its name, it includes the first attempt.
const s3Retries = 3

// s3Form matches an S3 address. Its groups are the bucket, the prefix of the object names, and the query parameters.
var s3Form = regexp.MustCompile(`^s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9._-]+)*)/?(?:\?([^#]*))?$`)

// openS3 opens a store in a bucket, without sending a request. If mayUseHTTP is true, the endpoint may use http. Later requests
// to Amazon's servers usually contain the bucket in the host name, and requests to most other servers contain it in the path.
func openS3(address string, mayUseHTTP bool) (Store, error) {
	form := s3Form.FindStringSubmatch(address)
	if form == nil {
		return nil, errors.New("EASEL_CONTENT_URL must be " + Form + ", with a prefix of letters, digits, dots, dashes, underscores and slashes, and without credentials; Easel takes them from the environment, a credentials file or the role of the machine")
	}
	endpoint, region, err := parametersOf(form[3], mayUseHTTP)
	if err != nil {
		return nil, fmt.Errorf("EASEL_CONTENT_URL: %w", err)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:  credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}}),
		Secure: endpoint.Scheme == "https", Region: region, MaxRetries: s3Retries,
	})
	if err != nil {
		return nil, fmt.Errorf("EASEL_CONTENT_URL: %w", err)
	}
	return s3{core: minio.Core{Client: client}, bucket: form[1], prefix: strings.TrimPrefix(form[2]+"/", "/")}, nil
}

// parametersOf parses the query parameters of an S3 address. The endpoint must use https, unless its host is loopback or
// mayUseHTTP is true.
func parametersOf(text string, mayUseHTTP bool) (endpoint *url.URL, region string, err error) {
	query, err := url.ParseQuery(text)
	if err != nil {
		return nil, "", errors.New("invalid parameters")
	}
	for name := range query {
		if name != "endpoint" && name != "region" {
			return nil, "", fmt.Errorf("unknown parameter %q; use endpoint and region", name)
		}
	}
	endpoint, err = catalog.ParseBaseURL(cmp.Or(query.Get("endpoint"), "https://s3.amazonaws.com"), mayUseHTTP)
	if err == nil && endpoint.Path != "" {
		err = errors.New("must not have a path")
	}
	if err != nil {
		return nil, "", fmt.Errorf("endpoint %w", err)
	}
	return endpoint, query.Get("region"), nil
}

// Put implements [Store].
func (s s3) Put(ctx context.Context, name string, body io.Reader, size int64) (written int64, err error) {
	info, err := s.core.Client.PutObject(ctx, s.bucket, s.prefix+name, body, size, minio.PutObjectOptions{
		ContentType: "application/octet-stream", PartSize: partSize, NumThreads: 1, SendContentMd5: true,
	})
	return info.Size, stripDetails(err)
}

// Get implements [Store].
func (s s3) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	var options minio.GetObjectOptions
	if offset > 0 {
		options.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	}
	body, info, _, err := s.core.GetObject(ctx, s.bucket, s.prefix+name, options)
	if err != nil {
		return nil, 0, stripDetails(err)
	}
	return body, offset + info.Size, nil
}

// Size implements [Store].
func (s s3) Size(ctx context.Context, name string) (int64, error) {
	info, err := s.core.StatObject(ctx, s.bucket, s.prefix+name, minio.StatObjectOptions{})
	return info.Size, stripDetails(err)
}

// Delete implements [Store]. It also removes the incomplete upload that an aborted write leaves. S3 reports no error for a
// missing object.
func (s s3) Delete(ctx context.Context, name string) error {
	err := s.core.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})
	if err == nil {
		err = s.core.RemoveIncompleteUpload(ctx, s.bucket, s.prefix+name)
	}
	return stripDetails(err)
}

// List implements [Store]. It returns all objects whose names start with prefix, followed by up to 1,000 incomplete uploads.
func (s s3) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // stops the listing if the consumer stops early
		for info := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
			if !yield(Object{strings.TrimPrefix(info.Key, s.prefix), info.LastModified}, stripDetails(info.Err)) || info.Err != nil {
				return
			}
		}
		incomplete, err := s.core.ListMultipartUploads(ctx, s.bucket, s.prefix+prefix, "", "", "", 0)
		for _, upload := range incomplete.Uploads {
			if !yield(Object{strings.TrimPrefix(upload.Key, s.prefix), upload.Initiated}, nil) {
				return
			}
		}
		if err != nil {
			yield(Object{}, stripDetails(err))
		}
	}
}

// stripDetails converts an error response from S3 to an error that contains only the status and the code, because the
// other parts may contain the request. For a missing object, it returns [fs.ErrNotExist]. It returns all other errors
// unchanged.
func stripDetails(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	switch {
	case !ok:
		return err
	case answer.Code == minio.NoSuchKey || answer.Code == minio.NoSuchUpload:
		return fs.ErrNotExist
	}
	return fmt.Errorf("bucket responded with %d %s", answer.StatusCode, answer.Code)
}
