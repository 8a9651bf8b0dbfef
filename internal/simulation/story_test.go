package simulation

import (
	"fmt"
	"strings"

	"github.com/easel-grpc/easel/internal/promises"
)

// failureReport returns the plan of a run and the events that concern the broken promise b.
func failureReport(o *outcome, b promises.Broken) string {
	var s strings.Builder
	fmt.Fprintf(&s, "plan: %s\n", o.plan)
	for _, t := range o.plan.Troubles {
		fmt.Fprintf(&s, "  %s\n", t)
	}
	fmt.Fprintf(&s, "broken: %s\n", b)
	if one, known := o.Truth[b.Generation]; known {
		fmt.Fprintf(&s, "truth of %s: %+v\n", b.Generation, one)
	}
	key := ""
	for _, e := range o.Events {
		if e.Kind == promises.Placed && (e.Generation == b.Generation || e.Text == b.Generation) {
			key = e.Text
		}
	}
	requests, lines := o.sentRequests(), 0
	tell := func(r request) {
		fmt.Fprintf(&s, "%14s %-12s request  %s %s -> %d after %v poll=%t cut=%t\n", r.at, r.process, r.op, r.path[strings.LastIndex(r.path, "/")+1:], r.status, r.end-r.at, r.poll, r.cut)
	}
	for _, e := range o.Events {
		for len(requests) > 0 && requests[0].at <= e.At {
			if r := requests[0]; b.Generation != "" && strings.Contains(r.path, b.Generation) || key != "" && r.key == key {
				tell(r)
				lines++
			}
			requests = requests[1:]
		}
		about := e.Generation != "" && (e.Generation == b.Generation || e.Generation == key) || key != "" && e.Text == key || e.Kind == promises.Fault || b.Generation == "" && e.Actor == b.Actor
		if about && lines < 400 {
			fmt.Fprintln(&s, e)
			lines++
		}
	}
	return s.String()
}
