package sandbox

// ExampleFault refuses the next two orders, as an overloaded catalog does.
const ExampleFault = `{"route":"POST /generations","status":503,"count":2}`

// FaultField explains one member of a [Fault] in JSON.
type FaultField struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Means string `json:"means"`
	// Effect is set where the member makes something happen; a fault needs at least one such.
	Effect bool `json:"effect,omitempty"`
}

// FaultFields explains every member, in the order of [Fault].
func FaultFields() []FaultField {
	return []FaultField{
		{"name", "text", "A name of your own, shown in the list of faults.", false},
		{"route", "text", "Meets only this route, such as POST /generations. Without it every route.", false},
		{"key", "text", "Meets only requests with this key. Without it every key.", false},
		{"skip", "number", "Lets so many matching requests pass first.", false},
		{"count", "number", "Ends the fault after it fired so often. 0 is never.", false},
		{"probability", "number", "Share of matching requests that are met, 0 to 1. 0 is all.", false},
		{"delay", "time", "Waits before anything else, such as 1.5s.", true},
		{"afterCommit", "true or false", "Carries the request out before its answer is replaced: an order is charged and its answer lost.", false},
		{"hang", "true or false", "Never answers.", true},
		{"reset", "true or false", "Cuts the connection without an answer.", true},
		{"redirect", "text", "Answers with this Location, and status or 302.", true},
		{"oversize", "number", "Answers with a JSON text of about so many bytes.", true},
		{"status", "number", "Answers with this status, 200 to 999, with header and body.", true},
		{"header", "object", "Headers that are added to the answer.", true},
		{"body", "text", "Answers with this body, as it is. Without status it is 200.", true},
		{"set", "object", "Changes members of the true answer; null takes one out.", true},
		{"contentLengthDelta", "number", "Is added to the true Content-Length.", true},
		{"drip", "number", "Sends the true answer at so many bytes a second.", true},
		{"cut", "true or false", "Cuts the connection within the true answer.", true},
		{"cutAfter", "number", "Bytes that come before cut.", false},
	}
}

// effects are the members with an effect. A fault needs at least one.
func effects() (names []string) {
	for _, field := range FaultFields() {
		if field.Effect {
			names = append(names, field.Name)
		}
	}
	return names
}
