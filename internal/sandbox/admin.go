package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
)

// AdminPath is where [Sandbox.AdminHandler] expects to be mounted.
const AdminPath = "/_sandbox/"

// adminRoute is one call of the administration.
type adminRoute struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Does   string          `json:"does"`
	Body   json.RawMessage `json:"body,omitempty"`
	do     func(*Sandbox, *http.Request) (status int, body any, err error)
}

// adminRoutes is the administration; the index is made from it.
func adminRoutes() []adminRoute {
	return []adminRoute{
		{"GET", AdminPath, "This index.", nil, (*Sandbox).adminIndex},
		{"GET", AdminPath + "faults", "Every fault in place, with how often it fired.", nil, (*Sandbox).adminFaults},
		{"POST", AdminPath + "faults", "Inject a fault; its fields are below.", json.RawMessage(ExampleFault), (*Sandbox).adminInject},
		{"DELETE", AdminPath + "faults", "End every fault.", nil, (*Sandbox).adminClear},
		{
			"POST", AdminPath + "keys", "Create a key; without key it is a new one.",
			json.RawMessage(`{"name":"ada","balanceCents":5000,"dailyCapCents":1000,"key":""}`), (*Sandbox).adminCreateKey,
		},
		{"DELETE", AdminPath + "keys/{key}", "Revoke a key.", nil, (*Sandbox).adminRevoke},
		{"POST", AdminPath + "keys/{key}/topup", "Add money to the account of a key.", json.RawMessage(`{"cents":1000,"note":"gift"}`), (*Sandbox).adminTopUp},
		{"GET", AdminPath + "audit?key={key}", "The books of a key, with what is wrong with them under faults.", nil, (*Sandbox).adminAudit},
		{"GET", AdminPath + "requests", "How many requests came to each route.", nil, (*Sandbox).adminRequests},
	}
}

// AdminHandler is the administration over HTTP, below [AdminPath]; GET [AdminPath] lists what it can do.
// It asks for no credential: bind it to loopback, never to a network that others can reach.
func (s *Sandbox) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range adminRoutes() {
		path, _, _ := strings.Cut(route.Path, "?")
		if path == AdminPath {
			path += "{$}"
		}
		mux.HandleFunc(route.Method+" "+path, func(w http.ResponseWriter, r *http.Request) {
			s.administer(w, r, route)
		})
	}
	return mux
}

func (s *Sandbox) administer(w http.ResponseWriter, r *http.Request, route adminRoute) {
	status, body, err := route.do(s, r)
	if err != nil {
		s.writeAdminError(w, err)
		return
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // people read it
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(body); err != nil {
		s.writeAdminError(w, err)
		return
	}
	send(w, status, "application/json", text.Bytes())
}

func (s *Sandbox) adminIndex(*http.Request) (int, any, error) {
	return http.StatusOK, struct {
		Routes  []adminRoute    `json:"routes"`
		Example json.RawMessage `json:"exampleFault"`
		Fields  []FaultField    `json:"faultFields"`
		Targets []string        `json:"faultRoutes"`
	}{adminRoutes(), json.RawMessage(ExampleFault), FaultFields(), append(routeTemplates(), "unknown")}, nil
}

func (s *Sandbox) adminClear(r *http.Request) (int, any, error) {
	s.ClearFaults()
	return s.adminFaults(r)
}

func (s *Sandbox) adminRevoke(r *http.Request) (int, any, error) {
	return http.StatusOK, record{"revoked": true}, s.RevokeKey(r.Context(), r.PathValue("key"))
}

func (s *Sandbox) adminRequests(*http.Request) (int, any, error) {
	return http.StatusOK, s.Requests(), nil
}

func (s *Sandbox) adminFaults(*http.Request) (int, any, error) {
	return http.StatusOK, record{"faults": s.Faults()}, nil
}

func (s *Sandbox) adminInject(r *http.Request) (int, any, error) {
	var f Fault
	if err := readAdmin(r, &f); err != nil {
		return 0, nil, err
	}
	if err := f.Validate(); err != nil {
		return 0, nil, err
	}
	s.Inject(f)
	return http.StatusCreated, f, nil
}

func (s *Sandbox) adminCreateKey(r *http.Request) (int, any, error) {
	var c KeyConfig
	if err := readAdmin(r, &c); err != nil {
		return 0, nil, err
	}
	if c.BalanceCents < 0 {
		return 0, nil, invalid("balanceCents", "must not be negative")
	}
	if c.Key != "" && !visible(c.Key, 8, 200) {
		return 0, nil, invalid("key", "8 to 200 visible ASCII characters")
	}
	key, err := s.CreateKey(r.Context(), c)
	return http.StatusCreated, record{"key": key}, err
}

func (s *Sandbox) adminTopUp(r *http.Request) (int, any, error) {
	var in struct {
		Cents int64  `json:"cents"`
		Note  string `json:"note"`
	}
	if err := readAdmin(r, &in); err != nil {
		return 0, nil, err
	}
	if in.Cents <= 0 {
		return 0, nil, invalid("cents", "must be at least 1")
	}
	key := r.PathValue("key")
	if err := s.TopUp(r.Context(), key, in.Cents, in.Note); err != nil {
		return 0, nil, err
	}
	return s.audited(r.Context(), key)
}

func (s *Sandbox) adminAudit(r *http.Request) (int, any, error) {
	return s.audited(r.Context(), r.URL.Query().Get("key"))
}

func (s *Sandbox) audited(ctx context.Context, key string) (int, any, error) {
	a, err := s.Audit(ctx, key)
	if err != nil {
		return 0, nil, err
	}
	faults := []string{}
	if err := a.Check(); err != nil {
		faults = strings.Split(err.Error(), "\n")
	}
	return http.StatusOK, struct {
		Audit
		Faults []string `json:"faults"`
	}{a, faults}, nil
}

// readAdmin reads a strict JSON body. A member of the wrong type or name is named in the error.
func readAdmin(r *http.Request, into any) error {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	var named *apiError
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil || errors.As(err, &named):
		return err
	case errors.As(err, &wrongType):
		field := strings.TrimPrefix(wrongType.Field, "faultFields.") // the embedded struct of Fault
		return invalid(field, "must be of type %s", wrongType.Type)
	}
	if _, name, found := strings.Cut(err.Error(), "unknown field "); found {
		return invalid(strings.Trim(name, `"`), "unknown; there are %s", strings.Join(memberNames(into), ", "))
	}
	return &apiError{status: http.StatusBadRequest, code: "INVALID_JSON", message: err.Error()}
}

// memberNames are the members that a body may have.
func memberNames(of any) (names []string) {
	kind := reflect.TypeOf(of).Elem()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// writeAdminError uses the default dialect, whatever the catalog speaks.
func (s *Sandbox) writeAdminError(w http.ResponseWriter, err error) {
	var e *apiError
	switch {
	case errors.As(err, &e):
	case errors.Is(err, ErrUnknownKey):
		e = &apiError{status: http.StatusNotFound, code: "UNKNOWN_KEY", message: "There is no such key.", field: "key"}
	case errors.Is(err, ErrKeyExists):
		e = &apiError{status: http.StatusConflict, code: "KEY_EXISTS", message: "The key exists already.", field: "key"}
	default:
		s.cfg.Logger.Error("administration failed", "error", err)
		e = &apiError{status: http.StatusInternalServerError, code: "INTERNAL", message: "The sandbox failed."}
	}
	contentType, body := Dialect{}.failure(e)
	send(w, e.status, contentType, append(body, '\n')) // people read it
}
