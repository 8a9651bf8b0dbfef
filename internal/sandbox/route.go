package sandbox

import (
	"cmp"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// maxBody is the maximum size of a request body, in bytes.
const maxBody = 17 << 20

// call is a request that is being served. Authentication sets the field who.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	body []byte
	who  account

	status int // status of the response; 0 means 200
}

// id returns the ID of the generation in the path.
func (c *call) id() string { return c.r.PathValue("id") }

// handler returns the body of a response, or nil if it has already sent the response.
type handler func(*Sandbox, *call) ([]byte, error)

// unknownRoute replaces the route template of a request that matches no route in the specification.
const unknownRoute = "unknown"

// routes contains the routes of the catalog, which section 4 of the specification lists.
var routes = []struct {
	template string
	handle   handler
}{
	{"GET /me", (*Sandbox).me},
	{"GET /models", (*Sandbox).models},
	{"GET /models/detail", (*Sandbox).modelDetail},
	{"POST /quote", (*Sandbox).quote},
	{"POST /generations", (*Sandbox).createGeneration},
	{"GET /generations", (*Sandbox).listGenerations},
	{"GET /generations/{id}", (*Sandbox).getGeneration},
	{"GET /generations/{id}/content", (*Sandbox).serveContent},
	{"DELETE /generations/{id}", (*Sandbox).deleteGeneration},
}

func routeTemplates() []string {
	list := make([]string, 0, len(routes))
	for _, r := range routes {
		list = append(list, r.template)
	}
	return list
}

// newMux returns a mux for the routes below [BasePath].
func (s *Sandbox) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, to := range routes {
		mux.HandleFunc(strings.Replace(to.template, " ", " "+BasePath, 1), func(w http.ResponseWriter, r *http.Request) {
			s.serve(&call{w: w, r: r}, to.handle)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.writeError(w, &apiError{status: http.StatusNotFound, code: "NOT_FOUND", message: "There is no such path with this method."})
	})
	return mux
}

// template returns the template of a request's route, such as "GET /generations/{id}", or unknownRoute.
func (s *Sandbox) template(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	if template := strings.Replace(pattern, BasePath, "", 1); template != "/" {
		return template
	}
	return unknownRoute
}

// apiError is an error that the catalog returns to a client.
type apiError struct {
	status        int
	code, message string
	field         string
	retryAfter    int // delay in seconds; zero means no Retry-After header
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// serve authenticates a request, applies the rate limit, reads the body, and runs the handler.
func (s *Sandbox) serve(c *call, handle handler) {
	err := s.admit(c)
	var body []byte
	if err == nil {
		body, err = handle(s, c)
	}
	switch {
	case err != nil:
		s.writeError(c.w, err)
	case body != nil:
		send(c.w, cmp.Or(c.status, http.StatusOK), "application/json", body)
	}
}

func (s *Sandbox) admit(c *call) (err error) {
	if s.isClosed() {
		return &apiError{status: http.StatusServiceUnavailable, code: "CLOSING", message: "The catalog is closing."}
	}
	if c.who, err = s.authenticate(c.r); err != nil {
		return err
	}
	if wait := s.rateDelay(c.who); wait > 0 {
		return &apiError{
			status: http.StatusTooManyRequests, code: "RATE_LIMITED", message: "Too many requests.",
			retryAfter: int(math.Ceil(wait.Seconds())),
		}
	}
	return c.readBody()
}

// rateDelay returns zero if the account may send a request now, and otherwise the time until it may. It does not block. If
// it returns zero, it has removed a token from the account's rate limiter. Without a rate limit, it always returns
// zero.
func (s *Sandbox) rateDelay(who account) time.Duration {
	if s.cfg.RateLimit == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets[who.id] == nil {
		s.buckets[who.id] = rate.NewLimiter(rate.Limit(s.cfg.RateLimit), int(math.Ceil(s.cfg.RateLimit)))
	}
	token := s.buckets[who.id].Reserve()
	wait := token.Delay()
	if wait > 0 {
		token.Cancel()
	}
	return wait
}

func (c *call) readBody() error {
	if c.r.Method != http.MethodPost {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if kind != "application/json" {
		return &apiError{status: http.StatusUnsupportedMediaType, code: "NOT_JSON", message: "The Content-Type must be application/json."}
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return &apiError{status: http.StatusRequestEntityTooLarge, code: "BODY_TOO_LARGE", message: "The body is larger than 17 MiB."}
	}
	if err != nil {
		return &apiError{status: http.StatusBadRequest, code: "BODY_INCOMPLETE", message: "The body ended early."}
	}
	c.body = body
	return nil
}

func (s *Sandbox) me(c *call) ([]byte, error) {
	p, err := readAccountState(s.db.link, c.who.id)
	return s.cfg.Dialect.encodeAccount(c.who, p.balance, s.spentToday(p)), err
}

func (s *Sandbox) models(*call) ([]byte, error) { return s.cfg.Dialect.encodeModels(catalog), nil }

func (s *Sandbox) modelDetail(c *call) ([]byte, error) {
	m, found := findModel(c.r.URL.Query().Get("id"))
	if !found {
		return nil, &apiError{status: http.StatusNotFound, code: "MODEL_NOT_FOUND", message: "There is no such model.", field: "id"}
	}
	return s.cfg.Dialect.modelDetail(m), nil
}

func (s *Sandbox) quote(c *call) ([]byte, error) {
	o, err := readOrder(c.body)
	return s.cfg.Dialect.encodePrice(o.price), err
}

func (s *Sandbox) createGeneration(c *call) ([]byte, error) {
	o, err := readOrder(c.body)
	if err != nil {
		return nil, err
	}
	key := c.r.Header.Get("Idempotency-Key")
	if key != "" && !isVisible(key, 1, 255) {
		return nil, invalid("Idempotency-Key", "must have 1 to 255 visible ASCII characters")
	}
	g, replayed, err := s.insertGeneration(c.who, o, key)
	if err != nil {
		return nil, err
	}
	if replayed {
		c.w.Header().Set("Idempotency-Replayed", "true")
	} else {
		c.status = http.StatusCreated
	}
	return s.cfg.Dialect.generation(g, baseURL(c.r)), nil
}

func (s *Sandbox) listGenerations(c *call) ([]byte, error) {
	list, err := s.recentGenerations(c.who.id)
	return s.cfg.Dialect.generations(list, baseURL(c.r)), err
}

func (s *Sandbox) getGeneration(c *call) ([]byte, error) {
	g, err := findGeneration(s.db.link, c.who.id, c.id())
	if err != nil {
		return nil, err
	}
	return s.cfg.Dialect.generation(g, baseURL(c.r)), nil
}

func (s *Sandbox) deleteGeneration(c *call) ([]byte, error) {
	if err := s.removeGeneration(c.who.id, c.id()); err != nil {
		return nil, err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

// baseURL returns the catalog's base URL, with the scheme and host of the request.
func baseURL(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + BasePath
}

func (s *Sandbox) writeError(w http.ResponseWriter, err error) {
	e := s.apiError(err)
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	contentType, body := s.cfg.Dialect.encodeFailure(e)
	send(w, e.status, contentType, body)
}

// apiError returns the error that the client receives for err. If err is not an [apiError], it logs err and returns an
// internal error.
func (s *Sandbox) apiError(err error) *apiError {
	var e *apiError
	if errors.As(err, &e) {
		return e
	}
	s.cfg.Logger.Error("request failed", "error", err)
	return &apiError{status: http.StatusInternalServerError, code: "INTERNAL", message: "The catalog failed."}
}

func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	head := w.Header()
	head.Set("Content-Type", contentType)
	head.Set("Content-Length", strconv.Itoa(len(body)))
	head.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	writePart(w, body)
}
