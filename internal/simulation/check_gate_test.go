package simulation

import "github.com/easel-grpc/easel/internal/promises"

// noRequestInAPause checks that a process sends no request with an API key during a pause that the catalog has requested
// for this API key.
func noRequestInAPause(o *outcome, say promises.Say) {
	last := map[account]request{} // for each account, the request that led to the pause with the latest end
	for _, r := range o.sentRequests() {
		who := account{r.process, r.apiKey}
		if asked := last[who]; r.at > asked.end && r.at < asked.end+asked.after {
			say(promises.Event{At: r.at, Actor: r.process}, "%s was sent %v after the catalog had requested a pause of %v", r.op, r.at-asked.end, asked.after)
			return
		}
		if r.asksForPause() && r.end+r.after > last[who].end+last[who].after {
			last[who] = r
		}
	}
}

// oneGoesFirst checks the first request with an API key after a pause for that API key. Each process must wait for the
// response to this request before it sends other requests with the API key.
func oneGoesFirst(o *outcome, say promises.Say) {
	asked, first := map[account]request{}, map[account]request{}
	for _, r := range o.sentRequests() {
		who := account{r.process, r.apiKey}
		opens := asked[who].end + asked[who].after
		switch one, known := first[who]; {
		case asked[who].after == 0 || r.at < opens || r.at < asked[who].end:
		case !known:
			first[who] = r
		case r.at < one.end:
			say(promises.Event{At: r.at, Actor: r.process}, "%s was sent before the response to the first request after a pause, at %v", r.op, one.end)
			return
		}
		if r.asksForPause() && r.end+r.after > opens {
			asked[who] = r
			delete(first, who)
		}
	}
}

// asksForPause reports whether the response requested a pause of known length.
func (r request) asksForPause() bool { return (r.status == 429 || r.status == 503) && r.after > 0 }
