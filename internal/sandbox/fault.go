package sandbox

import (
	"cmp"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Fault is a scripted failure. Route, Key, Skip, Count and Probability select the affected requests. The fields after them
// define the effect. At least one field with the struct tag effect must be set. If several faults select a request, only the
// fault that was injected first affects it.
//
// An affected request first waits for Delay. The next step depends on the fields:
//
//   - If Hang, Reset, Redirect, Oversize, Status or Body is set, the fault replaces the response. If several of them are set,
//     the first in this order determines the kind of response. The handler runs only if AfterCommit is set.
//   - Otherwise, the handler runs, and the client receives its response, altered by Set, ContentLengthDelta, Drip and Cut.
//
// If the client disconnects during the delay, the request is still served after the delay. With AfterCommit and Reset, an order
// is charged but its response is lost.
type Fault struct {
	Name string `json:"name,omitempty" means:"Name of the fault in the list of faults. It has no effect."`

	Route       string  `json:"route,omitempty" means:"Affects only this route, such as POST /generations. By default, affects every route."`
	Key         string  `json:"key,omitempty" means:"Affects only requests with this key. By default, affects every key."`
	Skip        int     `json:"skip,omitempty" means:"Number of matching requests that pass first."`
	Count       int     `json:"count,omitempty" means:"Number of requests after which the fault ends. Zero means never."`
	Probability float64 `json:"probability,omitempty" means:"Share of matching requests that are affected, 0 to 1. Zero means all."`

	Delay       Delay `json:"delay,omitempty" effect:"true" means:"Time to wait before anything else, such as 1.5s."`
	AfterCommit bool  `json:"afterCommit,omitempty" means:"Serves the request before its response is replaced: an order is charged and its response lost."`

	Hang     bool              `json:"hang,omitempty" effect:"true" means:"Never responds."`
	Reset    bool              `json:"reset,omitempty" effect:"true" means:"Cuts the connection without a response."`
	Redirect string            `json:"redirect,omitempty" effect:"true" means:"Responds with this Location and the given status, or 302."`
	Oversize int64             `json:"oversize,omitempty" effect:"true" means:"Responds with a JSON string of this number of bytes."`
	Status   int               `json:"status,omitempty" effect:"true" means:"Responds with this status, 200 to 999, with header and body."`
	Header   map[string]string `json:"header,omitempty" effect:"true" means:"Headers that are added to the response."`
	Body     string            `json:"body,omitempty" effect:"true" means:"Responds with this body, unchanged, and the given status, or 200."`

	Set                map[string]any `json:"set,omitempty" effect:"true" means:"Changes members of the true response; null removes one."`
	ContentLengthDelta int64          `json:"contentLengthDelta,omitempty" effect:"true" means:"Number that is added to the true Content-Length."`
	Drip               float64        `json:"drip,omitempty" effect:"true" means:"Bytes per second at which the true response is sent."`
	Cut                bool           `json:"cut,omitempty" effect:"true" means:"Cuts the connection in the middle of the true response."`
	CutAfter           int64          `json:"cutAfter,omitempty" means:"Number of bytes that are sent before the cut."`
}

// ExampleFault responds with status 503 to the next two requests that place an order, as an overloaded catalog would. Both can be
// attempts to place the same order, because Easel resends an order after this status.
const ExampleFault = `{"route":"POST /generations","status":503,"count":2}`

// FaultField describes one member of a [Fault] in JSON.
type FaultField struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Means  string `json:"means"`
	Effect bool   `json:"effect,omitempty"` // whether a fault that sets only this member has an effect
}

// FaultFields returns a description of every member of [Fault], in the order of declaration.
func FaultFields() (fields []FaultField) {
	types := map[reflect.Kind]string{reflect.String: "text", reflect.Bool: "true or false", reflect.Map: "object"}
	for _, member := range reflect.VisibleFields(reflect.TypeFor[Fault]()) {
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		kind := cmp.Or(types[member.Type.Kind()], "number")
		if member.Type == reflect.TypeFor[Delay]() {
			kind = "time"
		}
		fields = append(fields, FaultField{name, kind, member.Tag.Get("means"), member.Tag.Get("effect") != ""})
	}
	return fields
}

// Delay is a duration. In JSON it is a string such as "1.5s".
type Delay time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Delay) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Delay) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Delay(parsed)
	return err
}

// FaultStatus describes an active fault: how many requests have matched it, and how many it has affected.
type FaultStatus struct {
	Fault Fault `json:"fault"`
	Seen  int   `json:"seen"`  // number of matching requests, affected or not; stays constant after Fault.Count requests were affected
	Fired int   `json:"fired"` // number of affected requests
}

// Injected is a handle for a fault that was injected.
type Injected struct {
	sandbox *Sandbox
	status  FaultStatus // guarded by the sandbox's mutex
}

// Fired returns the number of requests that the fault has affected.
func (i *Injected) Fired() int {
	i.sandbox.mu.Lock()
	defer i.sandbox.mu.Unlock()
	return i.status.Fired
}

// Remove deactivates the fault.
func (i *Injected) Remove() {
	i.sandbox.mu.Lock()
	defer i.sandbox.mu.Unlock()
	i.sandbox.faults = slices.DeleteFunc(i.sandbox.faults, func(one *Injected) bool { return one == i })
}

// Validate returns an error that describes the first invalid field, or nil if the fault is valid.
func (f Fault) Validate() error {
	known := f.Route == "" || f.Route == unknownRoute || slices.Contains(routeTemplates(), f.Route)
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
	case !f.AfterCommit && !f.replacesResponse() && !f.altersResponse() && f.Delay == 0 && len(f.Header) == 0:
		return invalid("fault", "it has no effect; GET %s lists the fields with an effect", AdminPath)
	case f.AfterCommit && !f.replacesResponse():
		return invalid("afterCommit", "needs hang, reset, redirect, oversize, status or body")
	case f.replacesResponse() && f.altersResponse():
		return invalid("set", "set, contentLengthDelta, drip and cut alter the true response, which this fault replaces")
	}
	return nil
}

// Inject activates a fault and returns its handle. It panics if [Fault.Validate] fails, because a test whose fault has no
// effect would prove nothing.
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

// ClearFaults deactivates all faults. It does not change the handling of requests that are already affected.
func (s *Sandbox) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Faults returns the active faults, in the order in which they were injected.
func (s *Sandbox) Faults() []FaultStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]FaultStatus, 0, len(s.faults))
	for _, i := range s.faults {
		list = append(list, i.status)
	}
	return list
}

// nextFault counts a request, and returns the fault that affects it, or nil if no fault does. template is the template of the
// request's route, and key is the request's API key.
func (s *Sandbox) nextFault(template, key string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[template]++
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

// replacesResponse reports whether the fault replaces the handler's response.
func (f *Fault) replacesResponse() bool {
	return f.Hang || f.Reset || f.Redirect != "" || f.Oversize > 0 || f.Status != 0 || f.Body != ""
}

// altersResponse reports whether the fault changes the handler's response.
func (f *Fault) altersResponse() bool {
	return f.Set != nil || f.ContentLengthDelta != 0 || f.Drip != 0 || f.Cut
}

func (f *Fault) addHeader(h http.Header) {
	for name, value := range f.Header {
		h.Set(name, value)
	}
}
