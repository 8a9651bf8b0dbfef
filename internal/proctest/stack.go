package proctest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Stack is an Easel server and a sandbox, which is the server's catalog. Both run as processes:
//
//	s := proctest.NewStack(t, "--speed", "20").WithKeys(2).With(settings).Serve()
type Stack struct {
	*testing.T
	Sandbox  *Process
	Server   *Process // server that was started last; nil before Serve
	Keys     []string // API keys that WithKeys has created
	Operator string   // operator's token for the admin address; empty if the address needs no token

	settings Settings
}

// NewStack starts a sandbox with the administration API and the given flags. It does not start a server.
func NewStack(t *testing.T, flags ...string) *Stack {
	t.Helper()
	box := Sandbox(t, append([]string{"--admin", "--seed", "1"}, flags...)...)
	return &Stack{T: t, Sandbox: box, settings: Settings{"EASEL_UPSTREAM_URL": box.Catalog}}
}

// WithKeys creates the given number of API keys in the sandbox, each with a balance of 50 euros.
func (s *Stack) WithKeys(count int) *Stack {
	s.Helper()
	for range count {
		var made struct{ Key string }
		if err := json.Unmarshal([]byte(s.Control(http.MethodPost, "keys", `{"balanceCents": 5000}`)), &made); err != nil {
			s.Fatal(err)
		}
		s.Keys = append(s.Keys, made.Key)
	}
	return s
}

// With adds settings for servers that are started later.
func (s *Stack) With(settings Settings) *Stack {
	s.settings = s.settings.With(settings)
	return s
}

// Settings returns the settings with which Serve starts the next server.
func (s *Stack) Settings() Settings { return s.settings }

// Sharing adds settings for a server whose callers share the first API key. callers is the path of the callers file,
// and ledger is the URL of the ledger.
func (s *Stack) Sharing(callers, ledger string) *Stack {
	s.Helper()
	return s.With(Settings{"EASEL_UPSTREAM_KEY_FILE": File(s.T, s.Keys[0]), "EASEL_CALLERS_FILE": callers, "EASEL_LEDGER_URL": ledger})
}

// Replica returns a stack with the same sandbox and the same settings, but without a server.
func (s *Stack) Replica() *Stack {
	replica := *s
	replica.Server = nil
	return replica.With(freePorts)
}

// Serve starts the server on free ports. Later calls start it again on the same ports.
func (s *Stack) Serve() *Stack {
	s.Helper()
	s.Server = Serve(s.T, s.settings)
	return s.With(Settings{"EASEL_GRPC_ADDR": s.Server.GRPC, "EASEL_HTTP_ADDR": s.Server.HTTP, "EASEL_ADMIN_ADDR": s.Server.Admin})
}

// Control sends a request to the sandbox's administration API and returns the body of the response.
func (s *Stack) Control(method, path, body string) string {
	s.Helper()
	return Fetch(s.T, method, "http://"+s.Sandbox.HTTP+"/_sandbox/"+path, body)
}

// Fault injects a fault, in JSON, into the sandbox.
func (s *Stack) Fault(fault string) {
	s.Helper()
	s.Control(http.MethodPost, "faults", fault)
}

// Heal removes all faults from the sandbox.
func (s *Stack) Heal() {
	s.Helper()
	s.Control(http.MethodDelete, "faults", "")
}

// Page returns the body of a page at the server's admin address.
func (s *Stack) Page(path string) string {
	s.Helper()
	return Fetch(s.T, http.MethodGet, "http://"+s.Server.Admin+path, "", authorization(s.Operator)...)
}

func authorization(token string) []string {
	if token == "" {
		return nil
	}
	return []string{"Authorization", "Bearer " + token}
}

// Status returns the server's status as JSON.
func (s *Stack) Status() string {
	s.Helper()
	return s.Page("/status.json")
}

// Measured returns the sum of the current values of a metric's Prometheus series. It includes only series whose labels
// contain all strings in parts.
func (s *Stack) Measured(name string, parts ...string) (sum float64) {
	s.Helper()
	pattern := regexp.MustCompile(`(?m)^` + name + `(\{.*\})? (\S+)$`)
	for _, found := range pattern.FindAllStringSubmatch(s.Page("/metrics"), -1) {
		if slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(found[1], part) }) {
			continue
		}
		value, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			s.Fatal(err)
		}
		sum += value
	}
	return sum
}
