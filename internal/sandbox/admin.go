package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// AdminPath is where [Sandbox.AdminHandler] expects to be mounted.
const AdminPath = "/_sandbox/"

// AdminHandler is the administration over HTTP, below [AdminPath]. It asks for no credential: bind it to
// loopback, never to a network that others can reach.
//
//	GET    /_sandbox/faults             every fault with how often it fired
//	POST   /_sandbox/faults             inject a [Fault]
//	DELETE /_sandbox/faults             end every fault
//	POST   /_sandbox/keys               create a key from a [KeyConfig]: {"key"}
//	DELETE /_sandbox/keys/{key}         revoke it
//	POST   /_sandbox/keys/{key}/topup   {"cents", "note"}
//	GET    /_sandbox/audit?key=…        the [Audit], with what is wrong with it under "faults"
//	GET    /_sandbox/requests           requests received by route
func (s *Sandbox) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(r *http.Request) (status int, body any, err error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			status, body, err := do(r)
			if err != nil {
				s.writeAdminError(w, err)
				return
			}
			text, err := json.MarshalIndent(body, "", "  ")
			if err != nil {
				s.writeAdminError(w, err)
				return
			}
			send(w, status, "application/json", append(text, '\n'))
		})
	}
	handle("GET /_sandbox/faults", s.adminFaults)
	handle("POST /_sandbox/faults", s.adminInject)
	handle("DELETE /_sandbox/faults", func(r *http.Request) (int, any, error) {
		s.ClearFaults()
		return s.adminFaults(r)
	})
	handle("POST /_sandbox/keys", s.adminCreateKey)
	handle("DELETE /_sandbox/keys/{key}", func(r *http.Request) (int, any, error) {
		return http.StatusOK, record{"revoked": true}, s.RevokeKey(r.Context(), r.PathValue("key"))
	})
	handle("POST /_sandbox/keys/{key}/topup", s.adminTopUp)
	handle("GET /_sandbox/audit", s.adminAudit)
	handle("GET /_sandbox/requests", func(*http.Request) (int, any, error) {
		return http.StatusOK, s.Requests(), nil
	})
	return mux
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
		return invalid(strings.Trim(name, `"`), "unknown")
	}
	return &apiError{status: http.StatusBadRequest, code: "INVALID_JSON", message: err.Error()}
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
	send(w, e.status, contentType, body)
}
