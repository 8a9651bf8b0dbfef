package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/easel-grpc/easel/internal/limiter"
)

// Config contains the address of the catalog and the limits for requests.
type Config struct {
	// BaseURL is the address of the catalog in a form that [ParseBaseURL] accepts. Required.
	BaseURL string
	// AllowInsecure allows http to hosts other than loopback. API keys are then sent in plaintext.
	AllowInsecure bool
	// Transport sends the requests. The Pattern field of each request contains the route. Transport must not resend a POST. If
	// Transport is nil, the client uses NewTransportPools(NewTransport()).
	Transport http.RoundTripper
	// AttemptTimeout is the timeout of one attempt. It covers the JSON body of the response, but not the content of a result
	// file. Zero means 15 s.
	AttemptTimeout time.Duration
	// ContentHosts contains the hosts to which the catalog may redirect requests for results.
	ContentHosts []string
	// Seed is the seed of the random delays before retries. Zero means a random seed.
	Seed uint64
}

// Client sends requests to one catalog, with any number of API keys. It is safe for concurrent use.
//
// Every error is an [*Error] or the error of the caller's context. Each request waits for a permit from its API key's limiter.
// If the catalog is unavailable, reads and deletions are attempted up to three times. After several consecutive failures with
// the same API key, requests with this key are attempted only once.
type Client struct {
	upstream requester
	lists    *lists
}

// New validates the configuration and creates a client. It sends nothing.
func New(cfg Config) (*Client, error) {
	base, err := ParseBaseURL(cfg.BaseURL, cfg.AllowInsecure)
	if err != nil {
		return nil, fmt.Errorf("catalog: base URL: %w", err)
	}
	if cfg.AttemptTimeout < 0 {
		return nil, errors.New("catalog: AttemptTimeout must not be negative")
	}
	if cfg.Transport == nil {
		cfg.Transport = NewTransportPools(NewTransport())
	}
	upstream := requester{
		base: base, transport: cfg.Transport, timeout: cmp.Or(cfg.AttemptTimeout, 15*time.Second), called: func(context.Context, Credential, error) {},
		rejections: newRejections(), limiters: limiter.NewSet(), class: limiter.Read, elsewhere: newElsewhere(cfg.ContentHosts, NewTransport()),
		large: semaphore.NewWeighted(maxLargeBodies), decoding: semaphore.NewWeighted(1),
		attempts: 3, jitter: newJitter(cfg.Seed),
	}
	return &Client{upstream: upstream, lists: &lists{all: map[Tenant]listRead{}}}, nil
}

// Polls returns a copy of the client for polls. Its requests have the lowest priority in the limiter, and are not retried.
func (c *Client) Polls() *Client {
	polls := *c
	polls.upstream.attempts, polls.upstream.class = 1, limiter.Poll
	return &polls
}

// Reporting returns a copy of the client that reports the result of each attempt to a callback, unless the attempt ended with
// [KindBusy]. If the response header indicates success, the callback receives a nil error. If the caller cancels the attempt
// before the header arrives, the callback receives the error of the caller's context. Otherwise, the callback receives the
// attempt's [*Error]. The attempt waits until the callback returns. The client may run the callback concurrently, and holds no
// lock while the callback runs.
func (c *Client) Reporting(called func(ctx context.Context, cred Credential, err error)) *Client {
	reporting := *c
	reporting.upstream.called = called
	return &reporting
}

// Jitter returns a random duration less than limit. limit must be positive.
func (c *Client) Jitter(limit time.Duration) time.Duration {
	return c.upstream.jitter.randomDelay(limit)
}

// Account returns the account of the API key.
func (c *Client) Account(ctx context.Context, cred Credential) (Account, error) {
	return fetch(ctx, c, cred, &request{op: opAccount}, readAccount)
}

// Models returns all models. A model has input fields only if the catalog's list contains them.
func (c *Client) Models(ctx context.Context, cred Credential) ([]Model, error) {
	return fetch(ctx, c, cred, &request{op: opModels}, readModels)
}

// Model reads one model with its input fields.
func (c *Client) Model(ctx context.Context, cred Credential, id string) (Model, error) {
	if err := checkID(opModel, "model_id", id); err != nil {
		return Model{}, err
	}
	return fetch(ctx, c, cred, &request{op: opModel, query: url.Values{"id": {id}}},
		func(a answer) (Model, error) { return readModel(a, id) })
}

// Quote returns the price of an order with the given inputs. The inputs must be one JSON object and are sent verbatim. A quote
// is free. It starts no generation and reserves no money.
func (c *Client) Quote(ctx context.Context, cred Credential, modelID string, inputs json.RawMessage) (Quote, error) {
	body, err := orderBody(opQuote, modelID, inputs)
	if err != nil {
		return Quote{}, err
	}
	return fetch(ctx, c, cred, &request{op: opQuote, body: body}, readQuote)
}

// Generation reads one generation.
func (c *Client) Generation(ctx context.Context, cred Credential, id string) (Version, error) {
	if err := checkID(opGeneration, "generation_id", id); err != nil {
		return Version{}, err
	}
	return fetch(ctx, c, cred, &request{op: opGeneration, id: id}, func(a answer) (Version, error) {
		g, err := readGeneration(a, id)
		if err != nil {
			return Version{}, err
		}
		return g.Version(), nil
	})
}

// Content opens the result file of a generation at an offset. If etag is not empty and the file has another ETag, the error is
// [KindContentChanged]. The context also applies to the body. The caller must close the body, but not while a Read is running.
//
// If the connection fails, the body reconnects and resumes. It returns [io.EOF] only after the last byte of the file. It can
// also fail with [KindInterrupted] or [KindContentChanged].
//
// To detect a change of the file, the body compares strong ETags. If the file has no strong ETag, the body reads the file again
// from the requested offset after each reconnect. It then compares the checksums of the bytes that it has already returned.
//
// A response must mark its end by a Content-Range, by a Content-Length, or by its framing, as chunked encoding and HTTP/2 do.
// Otherwise, the body treats the end of the connection as an interruption. Missing bytes can't be detected if the server does
// not support ranges and sends a Content-Length that is too small.
func (c *Client) Content(ctx context.Context, cred Credential, id string, offset int64, etag string) (*Content, error) {
	if err := checkID(opContent, "generation_id", id); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, invalid(opContent, "read_offset", "must not be negative")
	}
	return openContent(ctx, &contentBody{
		upstream: &c.upstream, ctx: ctx, cred: cred, id: id, start: offset, at: offset, size: -1, etag: etag,
	})
}

// Delete deletes one generation. If the catalog does not have the generation, the error has the kind [KindNotFound]. However,
// Delete returns nil if an earlier attempt of the same call may have deleted the generation.
func (c *Client) Delete(ctx context.Context, cred Credential, id string) error {
	if err := checkID(opDelete, "generation_id", id); err != nil {
		return err
	}
	again := false // whether an earlier attempt may have deleted the generation
	return c.upstream.retryRequest(ctx, cred, func(ctx context.Context) error {
		err := c.upstream.attemptOnce(ctx, cred, &request{op: opDelete, id: id}, nil)
		c.lists.invalidate(cred.Tenant)
		if again && KindOf(err) == KindNotFound {
			return nil
		}
		again = true
		return err
	})
}
