package sandbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Fault is a scripted misbehaviour. One part of it selects requests, the other part has the effects. At
// most one fault meets a request: the first injected one that matches. A member that means an effect says so, and a
// fault needs at least one of these.
//
// Effects happen in this order: Delay; the handler, if AfterCommit is set or nothing else answers;
// then the first of Hang, Reset, Redirect, Oversize, Status that is set answers in the handler's place. If
// none is set, the handler's own answer goes out, altered by Set, ContentLengthDelta, Drip and Cut.
//
// A Delay goes on where the client goes away: the request is then carried out late. A create with AfterCommit and Reset is charged,
// and its answer is lost, with a TCP reset where there is TCP.
type Fault struct {
	Name string `json:"name,omitempty" means:"A name of your own, shown in the list of faults."`

	Route       string  `json:"route,omitempty" means:"Meets only this route, such as POST /generations. Without it every route."`
	Key         string  `json:"key,omitempty" means:"Meets only requests with this key. Without it every key."`
	Skip        int     `json:"skip,omitempty" means:"Lets so many matching requests pass first."`
	Count       int     `json:"count,omitempty" means:"Ends the fault after it fired so often. 0 is never."`
	Probability float64 `json:"probability,omitempty" means:"Share of matching requests that are met, 0 to 1. 0 is all."`

	Delay       time.Duration `json:"delay,omitempty" effect:"true" means:"Waits before anything else, such as 1.5s."`
	AfterCommit bool          `json:"afterCommit,omitempty" means:"Carries the request out before its answer is replaced: an order is charged and its answer lost."`

	Hang     bool              `json:"hang,omitempty" effect:"true" means:"Never answers."`
	Reset    bool              `json:"reset,omitempty" effect:"true" means:"Cuts the connection without an answer."`
	Redirect string            `json:"redirect,omitempty" effect:"true" means:"Answers with this Location, and status or 302."`
	Oversize int64             `json:"oversize,omitempty" effect:"true" means:"Answers with a JSON text of about so many bytes."`
	Status   int               `json:"status,omitempty" effect:"true" means:"Answers with this status, 200 to 999, with header and body."`
	Header   map[string]string `json:"header,omitempty" effect:"true" means:"Headers that are added to the answer."`
	Body     string            `json:"body,omitempty" effect:"true" means:"Answers with this body, as it is. Without status it is 200."`

	Set                map[string]any `json:"set,omitempty" effect:"true" means:"Changes members of the true answer; null takes one out."`
	ContentLengthDelta int64          `json:"contentLengthDelta,omitempty" effect:"true" means:"Is added to the true Content-Length."`
	Drip               float64        `json:"drip,omitempty" effect:"true" means:"Sends the true answer at so many bytes a second."`
	Cut                bool           `json:"cut,omitempty" effect:"true" means:"Cuts the connection within the true answer."`
	CutAfter           int64          `json:"cutAfter,omitempty" means:"Bytes that come before cut."`
}

// ExampleFault refuses the next two orders, as an overloaded catalog does.
const ExampleFault = `{"route":"POST /generations","status":503,"count":2}`

// FaultField explains one member of a [Fault] in JSON.
type FaultField struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Means  string `json:"means"`
	Effect bool   `json:"effect,omitempty"` // it makes something happen
}

// FaultFields explains every member, in the order of [Fault].
func FaultFields() (fields []FaultField) {
	types := map[reflect.Kind]string{reflect.String: "text", reflect.Bool: "true or false", reflect.Map: "object"}
	for _, member := range reflect.VisibleFields(reflect.TypeFor[Fault]()) {
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		kind := cmp.Or(types[member.Type.Kind()], "number")
		if member.Type == reflect.TypeFor[time.Duration]() {
			kind = "time"
		}
		fields = append(fields, FaultField{name, kind, member.Tag.Get("means"), member.Tag.Get("effect") != ""})
	}
	return fields
}

// effects are the members with an effect.
func effects() (names []string) {
	for _, field := range FaultFields() {
		if field.Effect {
			names = append(names, field.Name)
		}
	}
	return names
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
