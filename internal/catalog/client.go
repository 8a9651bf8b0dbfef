package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Config says where the catalog is and how long to wait for it.
type Config struct {
	// BaseURL is the absolute address that every path is appended to. It must be
	// https, unless the host is loopback or AllowInsecure is set, and must have no
	// query, fragment or user. Required.
	BaseURL string
	// AllowInsecure permits keys to travel in the clear. False refuses http to other
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
	// never sent is not told: a context that was over, a key that no header can carry.
	// Each attempt is a request. Those of the client that [Client.Once] gives are not told.
	//
	// ctx is that of the call, or has its values. It runs on the path of the call, with no lock held: it must be quick, and may be
	// called at the same time by many.
	Called func(ctx context.Context, cred Credential, err error)
	// Ordered is told how each series of attempts to place an order ended, once, whoever
	// still waits for it: what money was spent on, and why none was. Nil tells nobody.
	//
	// ctx has the values of the call that began the series. g is what was paid for where err
	// is nil; a key that is known to have succeeded pays nothing and is not told. Otherwise
	// as Called.
	Ordered func(ctx context.Context, order Order, g Generation, err error)
}

// Client speaks to one catalog for any number of credentials. Its methods may be
// called at the same time.
//
// Every method returns an [*Error], except that the end of the caller's own context
// is returned as the context's error. Reads are repeated inside when the catalog
// can't be reached: at most three attempts, within the caller's deadline, and fewer
// when many calls fail, so that an outage is not made worse.
type Client struct {
	base *url.URL
	// A bare transport follows no redirects. Go's client would carry the key to another
	// port of the same host, or from https to http.
	transport http.RoundTripper
	timeout   time.Duration
	idle      time.Duration
	now       func() time.Time
	called    func(context.Context, Credential, error)
	ordered   func(context.Context, Order, Generation, error)
	attempts  int
	jitter    *jitter
	budget    *budget
	orders    *orderBook
	unchanged *unchanged
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
	c := &Client{
		base:      base,
		transport: cfg.Transport,
		timeout:   cfg.AttemptTimeout,
		idle:      cfg.BodyIdleTimeout,
		now:       cfg.Now,
		called:    cfg.Called,
		ordered:   cfg.Ordered,
		attempts:  3,
		jitter:    newJitter(cfg.Seed),
		budget:    newBudget(),
		orders:    newOrderBook(cmp.Or(cfg.ResendWindow, resendWindow)),
		unchanged: newUnchanged(),
	}
	if c.transport == nil {
		c.transport = NewTransportPools(NewTransport())
	}
	if c.timeout == 0 {
		c.timeout = 15 * time.Second
	}
	if c.idle == 0 {
		c.idle = 30 * time.Second
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.called == nil {
		c.called = func(context.Context, Credential, error) {}
	}
	if c.ordered == nil {
		c.ordered = func(context.Context, Order, Generation, error) {}
	}
	return c, nil
}

// Once is the same client without inner retries, for pollers, which have a back-off of
// their own and know what they have sent: nobody is told of its requests. Both share
// connections and the retry budget.
func (c *Client) Once() *Client {
	once := *c
	once.attempts = 1
	once.called = func(context.Context, Credential, error) {}
	return &once
}

// Account reads what the catalog says about the key.
func (c *Client) Account(ctx context.Context, cred Credential) (Account, error) {
	return fetch(ctx, c, cred, request{op: opAccount}, readAccount)
}

// Models lists every model. Their input fields are there only where the list has them.
func (c *Client) Models(ctx context.Context, cred Credential) ([]Model, error) {
	return fetch(ctx, c, cred, request{op: opModels}, readModels)
}

// Model reads one model with its input fields.
func (c *Client) Model(ctx context.Context, cred Credential, id string) (Model, error) {
	if err := checkID(opModel, "model_id", id); err != nil {
		return Model{}, err
	}
	return fetch(ctx, c, cred, request{op: opModel, query: url.Values{"id": {id}}},
		func(a answer) (Model, error) { return readModel(a, id) })
}

// Quote prices inputs, which must be one JSON object and are sent digit for digit.
// It starts nothing, costs nothing and reserves nothing.
func (c *Client) Quote(ctx context.Context, cred Credential, modelID string, inputs json.RawMessage) (Quote, error) {
	body, err := orderBody(opQuote, modelID, inputs)
	if err != nil {
		return Quote{}, err
	}
	return fetch(ctx, c, cred, request{op: opQuote, body: body}, readQuote)
}

// Generations lists the recent generations of the key, in the catalog's order. The
// catalog does not say how far back it goes.
func (c *Client) Generations(ctx context.Context, cred Credential) ([]Generation, error) {
	return fetch(ctx, c, cred, request{op: opGenerations}, readGenerations)
}

// Generation reads one generation.
func (c *Client) Generation(ctx context.Context, cred Credential, id string) (Generation, error) {
	if err := checkID(opGeneration, "generation_id", id); err != nil {
		return Generation{}, err
	}
	return fetch(ctx, c, cred, request{op: opGeneration, id: id},
		func(a answer) (Generation, error) { return readGeneration(a, id) })
}

// Delete deletes one generation. An unknown one is [KindNotFound], except where an
// attempt of this very call may have deleted it.
func (c *Client) Delete(ctx context.Context, cred Credential, id string) error {
	if err := checkID(opDelete, "generation_id", id); err != nil {
		return err
	}
	again := false // an earlier attempt of ours may have been carried out
	return c.retry(ctx, func(ctx context.Context) error {
		_, err := c.attempt(ctx, cred, request{op: opDelete, id: id})
		if again && KindOf(err) == KindNotFound {
			return nil
		}
		again = true
		return err
	})
}

// post makes one attempt to place an order. Nothing below repeats it: the body has
// no GetBody, without which Go's transport does not send a request again.
//
// [KindOutcomeUnknown] means that the order may have been taken; Err or Status says
// why that is not known. An error of any other kind means that it was refused. The
// context's own error means that nothing was sent.
func (c *Client) post(ctx context.Context, cred Credential, order Order) (Generation, error) {
	body, err := orderBody(opCreate, order.ModelID, order.Inputs)
	if err != nil {
		return Generation{}, err
	}
	if err := checkIdempotencyKey(order.IdempotencyKey); err != nil {
		return Generation{}, err
	}
	if err := ctx.Err(); err != nil {
		return Generation{}, err
	}
	a, err := c.attempt(ctx, cred, request{op: opCreate, body: body, idempotencyKey: order.IdempotencyKey})
	c.budget.note(err)
	if err != nil {
		return Generation{}, outcome(err)
	}
	g, err := readCreated(a)
	return g, outcome(err)
}

// outcome turns the errors of an order that leave open whether it was taken into
// [KindOutcomeUnknown].
func outcome(err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: err}
	}
	if e.Kind == KindUnavailable || e.Kind == KindMalformed || !turnedAway(e.Status) {
		open := *e
		open.Kind = KindOutcomeUnknown
		return &open
	}
	return err
}

// turnedAway reports whether an answer to an order says that it was not carried out; 0 is no answer,
// as the order never left. Of the redirects only two do: 307 and 308 ask for the same request
// elsewhere. The others can mean "done, look there" (RFC 9110, 15.4).
func turnedAway(status int) bool {
	switch status {
	case 0, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return status >= 400 && status < 500
}

// orderBody is the body that a quote and an order share. Inputs go into it as they are.
func orderBody(op, modelID string, inputs json.RawMessage) ([]byte, error) {
	if err := checkID(op, "model_id", modelID); err != nil {
		return nil, err
	}
	if !isObject(inputs) {
		return nil, invalid(op, "inputs", "must be one JSON object")
	}
	id, err := json.Marshal(modelID)
	if err != nil {
		return nil, invalid(op, "model_id", "can't be written as JSON")
	}
	body := make([]byte, 0, len(id)+len(inputs)+24)
	body = append(append(body, `{"modelId":`...), id...)
	body = append(append(body, `,"inputs":`...), inputs...)
	return append(body, '}'), nil
}

// parseBaseURL checks the base URL. Its errors never repeat the URL, which may hold a
// password.
func parseBaseURL(text string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("is empty")
	case err != nil:
		return nil, fmt.Errorf("can't be read: %w", errors.Unwrap(err))
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must begin with https://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, errors.New("must not have a query or fragment")
	case u.Scheme == "http" && !insecure && !loopback(u.Hostname()):
		return nil, fmt.Errorf("must be https for host %s, because keys would travel in the clear", u.Hostname())
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	return url.Parse(u.Scheme + "://" + u.Host + path)
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
