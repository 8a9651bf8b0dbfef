package sandbox

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Fault is a scripted misbehaviour. One part of it selects requests, the other part has the effects. At
// most one fault meets a request: the first injected one that matches.
//
// Effects happen in this order: Delay; the handler, if AfterCommit is set or nothing else answers;
// then the first of Hang, Reset, Redirect, Oversize, Status that is set answers in the handler's place. If
// none is set, the handler's own answer goes out, altered by Set, ContentLengthDelta, Drip and Cut.
type Fault struct {
	// Name is for the reader of [Sandbox.Faults].
	Name string `json:"name,omitempty"`

	// Route is a template as in [Sandbox.Requests], such as "POST /generations". Empty meets every route.
	Route string `json:"route,omitempty"`
	// Key meets only requests with this API key. Empty meets every request.
	Key string `json:"key,omitempty"`
	// Skip lets the first so many matching requests pass.
	Skip int `json:"skip,omitempty"`
	// Count ends the fault after it fired so often. 0 means never.
	Count int `json:"count,omitempty"`
	// Probability is the share of matching requests that are met. 0 means all.
	Probability float64 `json:"probability,omitempty"`

	// Delay passes before anything else, after the body was read. A client that goes away does not end
	// it: the request is then carried out late. Closing the sandbox ends it.
	Delay time.Duration `json:"delay,omitempty"`
	// AfterCommit runs the handler completely before its answer is replaced: its changes stay. With
	// Reset this is a create that is charged, but whose answer is lost.
	AfterCommit bool `json:"afterCommit,omitempty"`

	// Hang accepts the request and never answers. It ends when the client leaves or the sandbox closes.
	Hang bool `json:"hang,omitempty"`
	// Reset cuts the connection without an answer, with a TCP reset where there is TCP.
	Reset bool `json:"reset,omitempty"`
	// Redirect answers with this Location and Status, or 302 if Status is 0.
	Redirect string `json:"redirect,omitempty"`
	// Oversize answers with a JSON string of about so many bytes. It is streamed and costs no memory.
	Oversize int64 `json:"oversize,omitempty"`
	// Status answers with Status, Header and Body. 0 with a Body means 200.
	Status int `json:"status,omitempty"`
	// Header is added to any answer of the fault, and to the handler's own answer. Retry-After may be any text.
	Header map[string]string `json:"header,omitempty"`
	// Body is the answer's body as it is: HTML, garbage, anything. Its type is application/json unless
	// Header says otherwise.
	Body string `json:"body,omitempty"`

	// Set changes members of the answer's top-level object, or of each object in a top-level array. A nil
	// value removes the member.
	Set map[string]any `json:"set,omitempty"`
	// ContentLengthDelta is added to the true Content-Length. More promises bytes that never come, less
	// cuts the body short without a sign.
	ContentLengthDelta int64 `json:"contentLengthDelta,omitempty"`
	// Drip sends the body at so many bytes a second, one by one. 0 means at full speed.
	Drip float64 `json:"drip,omitempty"`
	// Cut cuts the connection after CutAfter bytes of the body.
	Cut      bool  `json:"cut,omitempty"`
	CutAfter int64 `json:"cutAfter,omitempty"`
}

// faultFields is Fault without its JSON methods.
type faultFields Fault

// MarshalJSON writes Delay as a string such as "1.5s".
func (f Fault) MarshalJSON() ([]byte, error) {
	out := struct {
		faultFields
		Delay string `json:"delay,omitempty"`
	}{faultFields: faultFields(f)}
	if f.Delay != 0 {
		out.Delay = f.Delay.String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes. Unknown members are an error.
func (f *Fault) UnmarshalJSON(text []byte) error {
	var in struct {
		faultFields
		Delay string `json:"delay"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return err
	}
	*f = Fault(in.faultFields)
	if in.Delay == "" {
		return nil
	}
	var err error
	if f.Delay, err = time.ParseDuration(in.Delay); err != nil {
		return invalid("delay", "must be a time such as \"1.5s\"")
	}
	return nil
}

// FaultStatus is a fault and how often it fired.
type FaultStatus struct {
	Fault Fault `json:"fault"`
	// Seen counts the requests that matched, Fired those that the fault affected.
	Seen  int `json:"seen"`
	Fired int `json:"fired"`
}

// Injected is the handle of a fault in place.
type Injected struct {
	sandbox *Sandbox
	status  FaultStatus // guarded by its mutex
}

// Fired is the number of requests that the fault has affected.
func (i *Injected) Fired() int {
	i.sandbox.mu.Lock()
	defer i.sandbox.mu.Unlock()
	return i.status.Fired
}

// Remove ends the fault. It still affects requests that it has already met.
func (i *Injected) Remove() {
	i.sandbox.mu.Lock()
	defer i.sandbox.mu.Unlock()
	i.sandbox.faults = slices.DeleteFunc(i.sandbox.faults, func(one *Injected) bool { return one == i })
}

// Validate names the first invalid field.
func (f Fault) Validate() error {
	known := f.Route == "" || f.Route == "unknown" || slices.Contains(routeTemplates(), f.Route)
	switch {
	case !known:
		return invalid("route", "must be one of %q", routeTemplates())
	case f.Skip < 0:
		return invalid("skip", "must not be negative")
	case f.Count < 0:
		return invalid("count", "must not be negative")
	case f.Probability < 0 || f.Probability > 1:
		return invalid("probability", "must be from 0 to 1")
	case f.Delay < 0:
		return invalid("delay", "must not be negative")
	case f.Status != 0 && (f.Status < 200 || f.Status > 999):
		return invalid("status", "must be from 200 to 999")
	case f.Oversize < 0:
		return invalid("oversize", "must not be negative")
	case f.Drip < 0:
		return invalid("drip", "must not be negative")
	case f.CutAfter < 0:
		return invalid("cutAfter", "must not be negative")
	case !f.AfterCommit && !f.answers() && !f.alters() && f.Delay == 0 && len(f.Header) == 0:
		return invalid("fault", "it has no effect; set one of %s", strings.Join(effects(), ", "))
	case f.AfterCommit && !f.answers():
		return invalid("afterCommit", "needs an answer in the handler's place: hang, reset, redirect, oversize, status or body")
	case f.answers() && f.alters():
		return invalid("set", "set, contentLengthDelta, drip and cut bend the handler's own answer, which this fault replaces")
	}
	return nil
}

func routeTemplates() []string {
	list := make([]string, 0, len(routes))
	for _, r := range routes {
		list = append(list, r.method+" "+r.path)
	}
	return list
}

// Inject puts a fault in place and returns its handle. It panics if [Fault.Validate] fails, since a
// fault that cannot fire proves nothing.
func (s *Sandbox) Inject(f Fault) *Injected {
	if err := f.Validate(); err != nil {
		panic("sandbox: " + err.Error())
	}
	i := &Injected{sandbox: s, status: FaultStatus{Fault: f}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, i)
	return i
}

// ClearFaults ends every fault. Each still affects requests that it has already met.
func (s *Sandbox) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Faults lists the faults in place, in the order of their injection.
func (s *Sandbox) Faults() []FaultStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]FaultStatus, 0, len(s.faults))
	for _, i := range s.faults {
		list = append(list, i.status)
	}
	return list
}

// fault finds the fault that meets a request, and counts it.
func (s *Sandbox) fault(template, key string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.faults {
		f := &i.status.Fault
		if f.Route != "" && f.Route != template || f.Key != "" && f.Key != key || f.Count > 0 && i.status.Fired >= f.Count {
			continue
		}
		i.status.Seen++
		if i.status.Seen <= f.Skip || f.Probability > 0 && !s.random.chance(f.Probability) {
			continue
		}
		i.status.Fired++
		return f
	}
	return nil
}

// answers reports whether the fault replaces the handler's answer.
func (f *Fault) answers() bool {
	return f.Hang || f.Reset || f.Redirect != "" || f.Oversize > 0 || f.Status != 0 || f.Body != ""
}

// alters reports whether the fault changes the handler's own answer.
func (f *Fault) alters() bool {
	return f.Set != nil || f.ContentLengthDelta != 0 || f.Drip != 0 || f.Cut
}

func (f *Fault) addHeader(h http.Header) {
	for name, value := range f.Header {
		h.Set(name, value)
	}
}
