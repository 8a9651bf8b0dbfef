package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// AdminPath is the path under which the handler from [Sandbox.AdminHandler] must be mounted.
const AdminPath = "/_sandbox/"

// adminRoute is a route of the administration API.
type adminRoute struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Does   string          `json:"does"`
	Body   json.RawMessage `json:"body,omitempty"`
	do     func(*Sandbox, *http.Request) (status int, body any, err error)
}

// adminRoutes returns the routes of the administration API, in the order of its index page.
func adminRoutes() []adminRoute {
	return []adminRoute{
		{"GET", AdminPath, "This index.", nil, (*Sandbox).adminIndex},
		{"GET", AdminPath + "faults", "List the active faults, with the number of requests that each has affected.", nil, (*Sandbox).adminFaults},
		{"POST", AdminPath + "faults", "Inject a fault; its fields are below.", json.RawMessage(ExampleFault), (*Sandbox).adminInject},
		{"DELETE", AdminPath + "faults", "Deactivate all faults.", nil, func(s *Sandbox, r *http.Request) (int, any, error) {
			s.ClearFaults()
			return s.adminFaults(r)
		}},
		{
			"POST", AdminPath + "keys", "Create a key. If key is empty, the new key is random.",
			json.RawMessage(`{"name":"ada","balanceCents":5000,"dailyCapCents":1000,"key":""}`), (*Sandbox).adminCreateKey,
		},
		{"DELETE", AdminPath + "keys/{key}", "Revoke a key.", nil, func(s *Sandbox, r *http.Request) (int, any, error) {
			return http.StatusOK, record{"revoked": true}, s.RevokeKey(r.Context(), r.PathValue("key"))
		}},
		{"POST", AdminPath + "keys/{key}/topup", "Add money to the account of a key.", json.RawMessage(`{"cents":1000,"note":"gift"}`), (*Sandbox).adminTopUp},
		{"GET", AdminPath + "audit?key={key}", "Show the ledger of a key. The member faults lists violations of the ledger's rules.", nil, func(s *Sandbox, r *http.Request) (int, any, error) {
			return s.audited(r.Context(), r.URL.Query().Get("key"))
		}},
		{"GET", AdminPath + "requests", "Show the number of requests to each route.", nil, func(s *Sandbox, _ *http.Request) (int, any, error) {
			return http.StatusOK, s.Requests(), nil
		}},
	}
}

// AdminHandler returns the handler of the administration API, which must be mounted at [AdminPath]. GET [AdminPath] lists the
// routes. The API requires no credential, so serve it only on a loopback address.
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
	var text []byte
	if err == nil {
		text, err = json.MarshalIndent(body, "", "  ")
	}
	if err != nil {
		e := s.apiError(err)
		_, text = Dialect{}.encodeFailure(e) // the error is formatted without the sandbox's dialect, because it is for an administrator
		status = e.status
	}
	send(w, status, "application/json", append(text, '\n'))
}

func (s *Sandbox) adminIndex(*http.Request) (int, any, error) {
	return http.StatusOK, struct {
		Routes  []adminRoute    `json:"routes"`
		Example json.RawMessage `json:"exampleFault"`
		Fields  []FaultField    `json:"faultFields"`
		Targets []string        `json:"faultRoutes"`
	}{adminRoutes(), json.RawMessage(ExampleFault), FaultFields(), append(routeTemplates(), unknownRoute)}, nil
}

func (s *Sandbox) adminFaults(*http.Request) (int, any, error) {
	return http.StatusOK, record{"faults": s.Faults()}, nil
}

func (s *Sandbox) adminInject(r *http.Request) (int, any, error) {
	f, err := readAdmin[Fault](r)
	if err = cmp.Or(err, f.Validate()); err != nil {
		return 0, nil, err
	}
	s.Inject(f)
	return http.StatusCreated, f, nil
}

func (s *Sandbox) adminCreateKey(r *http.Request) (int, any, error) {
	c, err := readAdmin[KeyConfig](r)
	if err != nil {
		return 0, nil, err
	}
	key, err := s.CreateKey(r.Context(), c)
	return http.StatusCreated, record{"key": key}, err
}

func (s *Sandbox) adminTopUp(r *http.Request) (int, any, error) {
	in, err := readAdmin[struct {
		Cents int64  `json:"cents"`
		Note  string `json:"note"`
	}](r)
	if err != nil {
		return 0, nil, err
	}
	key := r.PathValue("key")
	if err := s.TopUp(r.Context(), key, in.Cents, in.Note); err != nil {
		return 0, nil, err
	}
	return s.audited(r.Context(), key)
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

// readAdmin decodes the JSON body of a request to the administration API. It rejects unknown members.
func readAdmin[T any](r *http.Request) (into T, err error) {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&into); err != nil {
		return into, &apiError{status: http.StatusBadRequest, code: "INVALID_JSON", message: strings.TrimPrefix(err.Error(), "json: ")}
	}
	return into, nil
}
