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
	// /generations/{id}", which a tracing transport can name its spans by.
	Transport http.RoundTripper
	// AttemptTimeout bounds one request including its JSON body; of a content request,
	// the wait for the header. 0 means 15 s.
	AttemptTimeout time.Duration
	// BodyIdleTimeout is the longest silence between two bytes of content. 0 means 30 s.
	BodyIdleTimeout time.Duration
	// ResendWindow is how long after its first attempt of unknown outcome an order may be sent
	// again: how long the catalog remembers an idempotency key is not known, and one that it has
	// forgotten would buy again. 0 means 12 h.
	ResendWindow time.Duration
	// Now is the clock of ObserveTime and of dates in Retry-After. Nil means [time.Now].
	Now func() time.Time
	// Seed is that of the jitter of all waits. 0 means a random one.
	Seed uint64
	// Called is told of each request that a call has sent, so that whoever polls under the
	// same credential can count it and slow down with it. Nil tells nobody.
	//
	// err is nil where the catalog answered with a 2xx header, whatever its body is; the
	// [*Error] of the request, with Kind and RetryAfter, where it refused or did not answer;
	// and the error of the caller's context where the caller left before either. What was
	// never sent is not told: a context that was over, an API key that no header can carry.
	// Each attempt is a request. Those of the client that [Client.Once] gives are not told.
	//
	// ctx is that of the call, or has its values. Called runs on the path of the call, with no
	// lock held: it must be quick, and may be called at the same time by many.
	Called func(ctx context.Context, cred Credential, err error)
	// Ordered is told how each series of attempts to place an order ended, once, whoever
	// still waits for it: what money was spent on, and why none was. Nil tells nobody.
	//
	// ctx has the values of the call that began the series. g is what was paid for where err
	// is nil; a key that is known to have succeeded pays nothing and is not told. Otherwise
	// as Called.
	Ordered func(ctx context.Context, order Order, g Generation, err error)
}

// withDefaults fills in what is not set.
func (cfg Config) withDefaults() Config {
	if cfg.Transport == nil {
		cfg.Transport = NewTransportPools(NewTransport())
	}
	cfg.AttemptTimeout = cmp.Or(cfg.AttemptTimeout, 15*time.Second)
	cfg.BodyIdleTimeout = cmp.Or(cfg.BodyIdleTimeout, 30*time.Second)
	cfg.ResendWindow = cmp.Or(cfg.ResendWindow, resendWindow)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Called == nil {
		cfg.Called = tellNobody
	}
	if cfg.Ordered == nil {
		cfg.Ordered = func(context.Context, Order, Generation, error) {}
	}
	return cfg
}

// tellNobody is a Called that tells nobody.
func tellNobody(context.Context, Credential, error) {}

// Client speaks to one catalog for any number of credentials. Its methods may be
// called at the same time.
//
// Every method returns an [*Error], except that the end of the caller's own context
// is returned as the context's error. Reads are repeated inside when the catalog
// can't be reached: at most three attempts, within the caller's deadline, and fewer
// when many calls fail, so that an outage is not made worse.
type Client struct {
	upstream  retrier
	orders    orders
	unchanged *unchanged
	idle      time.Duration // the longest silence in a body of content
}

// New checks the configuration and makes a client. It sends nothing.
func New(cfg Config) (*Client, error) {
	base, err := parseBaseURL(cfg.BaseURL, cfg.AllowInsecure)
	if err != nil {
		return nil, fmt.Errorf("catalog: base URL: %w", err)
	}
	if cfg.AttemptTimeout < 0 || cfg.BodyIdleTimeout < 0 || cfg.ResendWindow < 0 {
		return nil, errors.New("catalog: timeouts must not be negative")
	}
	cfg = cfg.withDefaults()
	upstream := retrier{
		requester: requester{base: base, transport: cfg.Transport, timeout: cfg.AttemptTimeout, now: cfg.Now, called: cfg.Called, accepted: newAccepted()},
		attempts:  3,
		jitter:    newJitter(cfg.Seed),
		budget:    &budget{tokens: budgetTokens},
	}
	return &Client{
		upstream:  upstream,
		orders:    orders{upstream: upstream, book: newOrderBook(cfg.ResendWindow), ordered: cfg.Ordered},
		unchanged: newUnchanged(),
		idle:      cfg.BodyIdleTimeout,
	}, nil
}

// Once is the same client without inner retries, for pollers, which have a back-off of
// their own and know what they have sent: nobody is told of its requests. Both share
// connections and the retry budget.
func (c *Client) Once() *Client {
	once := *c
	once.upstream.attempts, once.upstream.called = 1, tellNobody
	once.orders.upstream = once.upstream
	return &once
}

// Close waits for the orders that are on their way. When ctx ends before, it says so and
// lets no further attempt begin: their callers have to send their idempotency keys again.
func (c *Client) Close(ctx context.Context) error { return c.orders.book.close(ctx) }

// Account reads what the catalog says about the key.
func (c *Client) Account(ctx context.Context, cred Credential) (Account, error) {
	return fetch(ctx, c.upstream, cred, request{op: opAccount}, readAccount)
}

// Models lists every model. Their input fields are there only where the list has them.
func (c *Client) Models(ctx context.Context, cred Credential) ([]Model, error) {
	return fetch(ctx, c.upstream, cred, request{op: opModels}, readModels)
}

// Model reads one model with its input fields.
func (c *Client) Model(ctx context.Context, cred Credential, id string) (Model, error) {
	if err := checkID(opModel, "model_id", id); err != nil {
		return Model{}, err
	}
	return fetch(ctx, c.upstream, cred, request{op: opModel, query: url.Values{"id": {id}}},
		func(a answer) (Model, error) { return readModel(a, id) })
}

// Quote prices inputs, which must be one JSON object and are sent digit for digit.
// It starts nothing, costs nothing and reserves nothing.
func (c *Client) Quote(ctx context.Context, cred Credential, modelID string, inputs json.RawMessage) (Quote, error) {
	return quoteInputs(ctx, c.upstream, cred, modelID, inputs)
}

// Create places a paid order. It is the only place that does, and it keeps one promise:
// one idempotency key is one charge.
//
//   - Every attempt sends the same idempotency key and the same bytes under the same API key,
//     also where a held API key is rotated meanwhile, and every attempt is ours: the transport
//     repeats nothing by itself.
//   - An order that may have left is finished, even if the caller goes away: the attempts go
//     on for the time that the caller had, and at most for a minute after it has gone.
//   - Calls with the same key at the same time share one submission. A key that stands
//     for another order, as far as this process knows, is refused (KindKeyReused).
//   - While the outcome is unknown it tries again until the caller's deadline is near,
//     then says so (KindOutcomeUnknown): the caller sends the same key again. After
//     [Config.ResendWindow] nothing more is sent.
//   - A refusal is believed only of a key that has no attempt of unknown outcome: some catalogs
//     look at money, models or inputs before they look at the key. It is returned at once and
//     forgotten, so that the same key may be sent again, for instance after a top-up.
//
// A key that this process has seen succeed posts nothing: it answers with the newest state
// of the generation, or, where that can't be read, with the one that the order was answered
// with. Create never says that a paid order is not there: [Error.Unsent] tells only that this
// call has sent nothing, and even a refusal leaves open what others have sent under the key.
func (c *Client) Create(ctx context.Context, cred Credential, order Order) (Receipt, error) {
	receipt, known, err := c.orders.place(ctx, cred, order)
	if known {
		if newest, err := c.Generation(ctx, cred, receipt.Generation.ID); err == nil {
			receipt.Generation = newest.Generation
		}
	}
	return receipt, err
}

// Generations lists the recent generations of the key, in the catalog's order. The
// catalog does not say how far back it goes.
func (c *Client) Generations(ctx context.Context, cred Credential) ([]Version, error) {
	return fetch(ctx, c.upstream, cred, request{op: opGenerations}, func(a answer) ([]Version, error) {
		all, _, err := readListed(a, nil)
		return all, err
	})
}

// List reads what [Client.Generations] does, for a caller that lists again and again: a record whose
// bytes are what they were in the last list of the credential is not decoded again.
func (c *Client) List(ctx context.Context, cred Credential) ([]Version, error) {
	return fetch(ctx, c.upstream, cred, request{op: opGenerations}, func(a answer) ([]Version, error) {
		all, records, err := readListed(a, c.unchanged.list(cred.Tenant, a.redactor))
		if err == nil {
			c.unchanged.keepList(cred.Tenant, a, records)
		}
		return all, err
	})
}

// Generation reads one generation. An answer whose bytes are what they were is not decoded again.
func (c *Client) Generation(ctx context.Context, cred Credential, id string) (Version, error) {
	if err := checkID(opGeneration, "generation_id", id); err != nil {
		return Version{}, err
	}
	return fetch(ctx, c.upstream, cred, request{op: opGeneration, id: id}, func(a answer) (Version, error) {
		if last, ok := c.unchanged.single(cred.Tenant, id, a); ok {
			return last, nil
		}
		g, err := readGeneration(a, id)
		if err != nil {
			return Version{}, err
		}
		newest := g.Version()
		c.unchanged.keepSingle(cred.Tenant, id, a, newest)
		return newest, nil
	})
}

// Content opens the result file of a generation at offset. A non-empty etag refuses
// other bytes than those that it stands for ([KindContentChanged]).
//
// The body resumes by itself where the connection fails, and ends with [io.EOF] only
// when every byte up to the end of the file was delivered. It can end otherwise with
// [KindInterrupted], which says where to go on, with [KindContentChanged], or with the
// error of ctx, which governs the body as long as it is read. It must be closed, and
// not while a Read is under way.
//
// Bytes are told apart by a strong ETag. Without one, a body that is resumed is read
// again from where it began and compared with what was delivered by checksum. An
// answer whose end can't be told from a cut, by range, length or framing, is taken as
// cut. What can't be noticed is a Content-Length that is too small from a server that
// does not know ranges.
func (c *Client) Content(ctx context.Context, cred Credential, id string, offset int64, etag string) (*Content, error) {
	if err := checkID(opContent, "generation_id", id); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, invalid(opContent, "read_offset", "must not be negative")
	}
	return openContent(ctx, &contentBody{
		upstream: c.upstream, idle: c.idle, ctx: ctx, cred: cred, id: id, start: offset, at: offset, size: -1, etag: etag,
	})
}

// Delete deletes one generation. An unknown one is [KindNotFound], except where an
// attempt of this very call may have deleted it.
func (c *Client) Delete(ctx context.Context, cred Credential, id string) error {
	if err := checkID(opDelete, "generation_id", id); err != nil {
		return err
	}
	again := false // an earlier attempt of ours may have been carried out
	return c.upstream.retry(ctx, func(ctx context.Context) error {
		_, err := c.upstream.attempt(ctx, cred, request{op: opDelete, id: id})
		if again && KindOf(err) == KindNotFound {
			return nil
		}
		again = true
		return err
	})
}
