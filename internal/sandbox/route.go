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
)

// maxBody is the size of the largest request body, in bytes.
const maxBody = 1 << 20

// call is one request on its way through a handler.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	body []byte
	id   string // the generation in the path
	who  account

	status int // of the answer; 0 is 200
}

// handler gives the body of its answer, or nil where it has sent the answer itself.
type handler func(*Sandbox, *call) ([]byte, error)

// route is the route of a request. A path without a handler is unknown.
type route struct {
	template string // such as "GET /generations/{id}"; "unknown" without a handler
	handle   handler
	id       string
	allowed  []string // methods of the path
}

// routes is section 4 of the specification.
var routes = []struct {
	method, path string
	handle       handler
}{
	{"GET", "/me", (*Sandbox).me},
	{"GET", "/models", (*Sandbox).models},
	{"GET", "/models/detail", (*Sandbox).modelDetail},
	{"POST", "/quote", (*Sandbox).quote},
	{"POST", "/generations", (*Sandbox).createGeneration},
	{"GET", "/generations", (*Sandbox).listGenerations},
	{"GET", "/generations/{id}", (*Sandbox).getGeneration},
	{"GET", "/generations/{id}/content", (*Sandbox).content},
	{"DELETE", "/generations/{id}", (*Sandbox).deleteGeneration},
}

func findRoute(r *http.Request) route {
	to := route{template: "unknown"}
	path, inside := strings.CutPrefix(r.URL.Path, BasePath)
	if !inside {
		return to
	}
	for _, known := range routes {
		id, ok := matchPath(known.path, path)
		if !ok {
			continue
		}
		to.allowed = append(to.allowed, known.method)
		if known.method == r.Method {
			to.template, to.handle, to.id = known.method+" "+known.path, known.handle, id
		}
	}
	return to
}

// matchPath compares a path with a template in which {id} stands for one segment.
func matchPath(template, path string) (id string, ok bool) {
	before, after, hasID := strings.Cut(template, "{id}")
	if !hasID {
		return "", template == path
	}
	rest, ok := strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(rest, after)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// apiError is an error of the catalog as a client sees it.
type apiError struct {
	status        int
	code, message string
	field         string
	retryAfter    int // seconds; 0 = no such header
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// serve authenticates and limits a request, reads the body, and runs the handler.
func (s *Sandbox) serve(w http.ResponseWriter, r *http.Request, to route) {
	c := &call{w: w, r: r, id: to.id}
	if err := s.admit(c, to); err != nil {
		s.writeError(w, err)
		return
	}
	body, err := to.handle(s, c)
	if err != nil {
		s.writeError(w, err)
		return
	}
	if body != nil {
		send(w, cmp.Or(c.status, http.StatusOK), "application/json", body)
	}
}

func (s *Sandbox) admit(c *call, to route) (err error) {
	if s.ended() {
		return &apiError{status: http.StatusServiceUnavailable, code: "CLOSING", message: "The catalog is closing."}
	}
	if to.handle == nil && len(to.allowed) == 0 {
		return &apiError{status: http.StatusNotFound, code: "NOT_FOUND", message: "There is no such path."}
	}
	if c.who, err = s.authenticate(c.r); err != nil {
		return err
	}
	if to.handle == nil {
		c.w.Header().Set("Allow", strings.Join(to.allowed, ", "))
		return &apiError{status: http.StatusMethodNotAllowed, code: "METHOD_NOT_ALLOWED", message: "The path does not take this method."}
	}
	if wait := s.wait(c.who, to); wait > 0 {
		return &apiError{
			status: http.StatusTooManyRequests, code: "RATE_LIMITED", message: "Too many requests.",
			retryAfter: int(math.Ceil(wait.Seconds())),
		}
	}
	return c.readBody()
}

// wait is how long a request comes too early; 0 lets it pass.
func (s *Sandbox) wait(who account, to route) time.Duration {
	if s.cfg.RateRoute != "" && s.cfg.RateRoute != to.template {
		return 0
	}
	return s.rate.take(who.id)
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
		return &apiError{status: http.StatusRequestEntityTooLarge, code: "BODY_TOO_LARGE", message: "The body is larger than 1 MiB."}
	}
	if err != nil {
		return &apiError{status: http.StatusBadRequest, code: "BODY_INCOMPLETE", message: "The body ended early."}
	}
	c.body = body
	return nil
}

func (s *Sandbox) me(c *call) ([]byte, error) {
	p, err := readAccountState(s.db.read.link, c.who.id)
	return s.cfg.Dialect.account(c.who, p.balance, s.spentToday(p)), err
}

func (s *Sandbox) models(*call) ([]byte, error) { return s.cfg.Dialect.models(catalog), nil }

func (s *Sandbox) modelDetail(c *call) ([]byte, error) {
	m, found := findModel(c.r.URL.Query().Get("id"))
	if !found {
		return nil, &apiError{status: http.StatusNotFound, code: "MODEL_NOT_FOUND", message: "There is no such model.", field: "id"}
	}
	return s.cfg.Dialect.modelDetail(m), nil
}

func (s *Sandbox) quote(c *call) ([]byte, error) {
	o, err := readOrder(c.body)
	return s.cfg.Dialect.price(o.price), err
}

func (s *Sandbox) createGeneration(c *call) ([]byte, error) {
	o, err := readOrder(c.body)
	if err != nil {
		return nil, err
	}
	key := c.r.Header.Get("Idempotency-Key")
	if key != "" && !visible(key, 1, 255) {
		return nil, invalid("Idempotency-Key", "1 to 255 visible ASCII characters")
	}
	g, replayed, err := s.create(c.who, o, key)
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
	list, err := s.recent(c.who.id)
	return s.cfg.Dialect.generations(list, baseURL(c.r)), err
}

func (s *Sandbox) getGeneration(c *call) ([]byte, error) {
	g, err := findGeneration(s.db.read.link, c.who.id, c.id)
	if err != nil {
		return nil, err
	}
	return s.cfg.Dialect.generation(g, baseURL(c.r)), nil
}

func (s *Sandbox) deleteGeneration(c *call) ([]byte, error) {
	if err := s.delete(c.who.id, c.id); err != nil {
		return nil, err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

// baseURL is the address by which the client reached the catalog.
func baseURL(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + BasePath
}

func (s *Sandbox) writeError(w http.ResponseWriter, err error) {
	var e *apiError
	if !errors.As(err, &e) {
		s.cfg.Logger.Error("request failed", "error", err)
		e = &apiError{status: http.StatusInternalServerError, code: "INTERNAL", message: "The catalog failed."}
	}
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	contentType, body := s.cfg.Dialect.failure(e)
	send(w, e.status, contentType, body)
}

func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	head := w.Header()
	head.Set("Content-Type", contentType)
	head.Set("Content-Length", strconv.Itoa(len(body)))
	head.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	write(w, body)
}
