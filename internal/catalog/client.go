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

// Config says where the catalog is and how long to wait for it.
type Config struct {
	// BaseURL is the absolute address that every path is appended to. It must be
	// https, unless the host is loopback or AllowInsecure is set, and must have no
	// query, fragment or user. Required.
	BaseURL string
	// AllowInsecure permits API keys to travel in the clear. False refuses http to other
	// hosts.
	AllowInsecure bool
	// Transport sends the requests. Nil means [TransportPools] of [NewTransport]. It must not
	// repeat a POST by itself. Every request carries its route in Pattern, such as "GET
	// /generations/{id}", after which a tracing transport can name its spans.
	Transport http.RoundTripper
	// AttemptTimeout bounds one request including its JSON body; of a content request,
	// the wait for the header. 0 means 15 s.
	AttemptTimeout time.Duration
	// BodyIdleTimeout is the longest silence between two bytes of content. 0 means 30 s.
	BodyIdleTimeout time.Duration
	// ContentHosts are other hosts that a redirect of a result is followed to: over https, and without the API key.
	ContentHosts []string
	// Seed is the seed of the jitter of all waits. 0 means a random one.
	Seed uint64
}

// withDefaults fills in defaults for zero fields.
func (cfg Config) withDefaults() Config {
	if cfg.Transport == nil {
		cfg.Transport = NewTransportPools(NewTransport())
	}
	cfg.AttemptTimeout = cmp.Or(cfg.AttemptTimeout, 15*time.Second)
	cfg.BodyIdleTimeout = cmp.Or(cfg.BodyIdleTimeout, 30*time.Second)
	return cfg
}

// Client speaks to one catalog for any number of credentials. Its methods may be
// called at the same time.
//
// Every error is an [*Error], except that the end of the caller's own context
// is returned as the context's error. Each request waits for a permit of the limiter of its
// API key. Reads are retried inside when the catalog can't be reached: at most three
// attempts, within the caller's deadline, and fewer when many calls fail, so that an
// outage is not made worse.
type Client struct {
	upstream retrier
	lists    *lists
	idle     time.Duration // the longest silence in a body of content
}

// New checks the configuration and makes a client. It sends nothing.
func New(cfg Config) (*Client, error) {
	base, err := ParseBaseURL(cfg.BaseURL, cfg.AllowInsecure)
	if err != nil {
		return nil, fmt.Errorf("catalog: base URL: %w", err)
	}
	if cfg.AttemptTimeout < 0 || cfg.BodyIdleTimeout < 0 {
		return nil, errors.New("catalog: timeouts must not be negative")
	}
	cfg = cfg.withDefaults()
	upstream := retrier{
		requester: requester{
			base: base, transport: cfg.Transport, timeout: cfg.AttemptTimeout, called: func(context.Context, Credential, error) {},
			rejections: newRejections(), limiters: limiter.NewSet(), class: limiter.Read, elsewhere: newElsewhere(cfg.ContentHosts, NewTransport()),
			large: semaphore.NewWeighted(maxLargeBodies),
		},
		attempts: 3,
		jitter:   newJitter(cfg.Seed),
	}
	return &Client{
		upstream: upstream,
		lists:    &lists{all: map[Tenant]listRead{}},
		idle:     cfg.BodyIdleTimeout,
	}, nil
}

// Polls returns the same client for polls. They start after the orders and reads of the API key, and are not retried.
func (c *Client) Polls() *Client {
	polls := *c
	polls.upstream.attempts, polls.upstream.class = 1, limiter.Poll
	return &polls
}

// Reporting gives the same client for calls: called hears of each of their requests, so that the poller of the same
// credential can count it and slow down with it.
//
// err is nil where the catalog answered with a 2xx header, whatever its body is; the [*Error] of the request, with Kind
// and RetryAfter, where it refused or did not answer; and the error of the caller's context where the caller left before
// either. called does not hear of a request that was never sent: its context was over, or no header can carry its API
// key. Each attempt is a request.
//
// ctx is that of the call, or has its values. called runs on the path of the call, with no lock held: it must be quick,
// and may be called by many at the same time.
func (c *Client) Reporting(called func(ctx context.Context, cred Credential, err error)) *Client {
	reporting := *c
	reporting.upstream.called = called
	return &reporting
}

// Jitter draws a time from 0 up to a limit, which must be above 0 and is never drawn itself, from the source of all waits.
func (c *Client) Jitter(limit time.Duration) time.Duration { return c.upstream.jitter.below(limit) }

// Account reads the account of the API key.
func (c *Client) Account(ctx context.Context, cred Credential) (Account, error) {
	return fetch(ctx, c, cred, &request{op: opAccount}, readAccount)
}

// Models lists every model. Their input fields are there only where the list has them.
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

// Quote prices inputs, which must be one JSON object and are sent digit for digit.
// It starts nothing, costs nothing and reserves nothing.
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

// Content opens the result file of a generation at offset. A file with another ETag than
// a non-empty etag is refused ([KindContentChanged]).
//
// The body resumes by itself when the connection fails, and ends with [io.EOF] only
// when every byte up to the end of the file was delivered. It can also end with
// [KindInterrupted], which says where to resume, with [KindContentChanged], or with the
// error of ctx, which governs the body as long as it is read. The caller must close the
// body, and not during a Read.
//
// A strong ETag identifies the bytes. Without one, a resumed body is read again from its
// beginning, and a checksum compares it with the delivered bytes. An answer whose end can't
// be told from a cut, by range, length or framing, counts as cut. Only one fault can't be
// detected: a Content-Length that is too small, from a server without ranges.
func (c *Client) Content(ctx context.Context, cred Credential, id string, offset int64, etag string) (*Content, error) {
	if err := checkID(opContent, "generation_id", id); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, invalid(opContent, "read_offset", "must not be negative")
	}
	return openContent(ctx, &contentBody{
		upstream: &c.upstream, idle: c.idle, ctx: ctx, cred: cred, id: id, start: offset, at: offset, size: -1, etag: etag,
	})
}

// Delete deletes one generation. An unknown one is [KindNotFound], except where an earlier
// attempt of the same call may have deleted it.
func (c *Client) Delete(ctx context.Context, cred Credential, id string) error {
	if err := checkID(opDelete, "generation_id", id); err != nil {
		return err
	}
	again := false // an earlier attempt of ours may have been carried out
	return c.upstream.retry(ctx, cred, func(ctx context.Context) error {
		err := c.upstream.attempt(ctx, cred, &request{op: opDelete, id: id}, nil)
		c.lists.invalidate(cred.Tenant)
		if again && KindOf(err) == KindNotFound {
			return nil
		}
		again = true
		return err
	})
}
