package telemetry

// Kind is a kind of metric, such as a counter.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"   // value that only increases; Prometheus adds _total to the name
	UpDown    Kind = "updown"    // value that can go up or down
	Gauge     Kind = "gauge"     // current value, read at each collection
	Histogram Kind = "histogram" // distribution of values; in Prometheus, its series have the suffixes _bucket, _sum and _count
)

// Metric describes one metric in [Table].
type Metric struct {
	Name    string // name in OpenTelemetry or, if Scraped is true, in Prometheus
	Kind    Kind
	Unit    string // UCUM unit: "s", "By", "{call}"
	Labels  []Label
	Text    string    // description of the metric, in one or two sentences
	Buckets []float64 // bucket boundaries of a histogram, in the metric's unit
	Scraped bool      // whether the metric exists only in the Prometheus format
	From    Source    // source of the value, read at each collection; empty if the program updates the metric as events happen
}

// Source is the name of a source of metrics. Each source is read at each collection.
type Source string

// Sources of metrics. [Readings] has one function for each source.
const (
	Hub      Source = "hub"
	Limiters Source = "limiters"
	Ledger   Source = "ledger"
	Settings Source = "settings"
	Contents Source = "contents"
)

// Label is a dimension of a metric. A label has either a fixed set of values, or a limited number of values and one
// further value for all others. Values are never IDs, API keys or strings that callers choose.
type Label struct {
	Name   string
	Values []string // all possible values; nil if the field Of describes them instead
	Of     string
}

var (
	seconds  = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600}
	attempts = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	delays   = []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 30, 60, 120, 300}

	rpcMethod  = Label{Name: "rpc.method", Of: "the methods of the contract"}
	httpMethod = Label{Name: "http.request.method", Values: []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE", "_OTHER"}}
	httpCode   = Label{Name: "http.response.status_code", Of: "HTTP status codes"}
	caller     = Label{Name: "easel.caller", Of: `names of callers, or "forwarded" for all callers with their own API keys`}
	model      = Label{Name: "easel.model.id", Of: "model ids"}
	condition  = Label{Name: "easel.upstream.condition", Values: []string{"unknown", "healthy", "throttled", "unreachable", "credential_rejected"}}
	ordered    = Label{Name: "easel.order.outcome", Values: []string{
		"placed", "placed_unpriced", "invalid_input", "credential_rejected", "insufficient_balance", "forbidden", "price_above_limit",
		"daily_cap", "inputs_too_large", "rate_limited", "order_expired", "outcome_unknown", "failed",
	}}
	owner           = Label{Name: "easel.owner", Of: "names of owners behind a shared API key"}
	window          = Label{Name: "easel.budget.window", Values: []string{"day", "month"}}
	eventOutcome    = Label{Name: "easel.event.outcome", Values: []string{"sent", "failed", "given_up"}}
	copyOutcome     = Label{Name: "easel.content.outcome", Values: []string{"copied", "failed"}}
	contentSource   = Label{Name: "easel.content.source", Values: []string{"copy", "catalog"}}
	waiter          = Label{Name: "easel.owner", Of: `names of owners, "polls", or "forwarded" for all callers with their own API keys`}
	class           = Label{Name: "easel.limiter.class", Values: []string{"order", "read", "poll"}}
	setting         = Label{Name: "easel.setting", Values: []string{"EASEL_CALLERS_FILE", "EASEL_UPSTREAM_KEY_FILE", "EASEL_TLS_CERT_FILE", "issuers"}}
	closedBy        = Label{Name: "easel.limiter.reason", Values: []string{"rate_limited", "unavailable", "daily_cap"}}
	pollKind        = Label{Name: "easel.poll.kind", Values: []string{"read", "sweep", "account"}}
	polled          = Label{Name: "easel.poll.outcome", Values: []string{"ok", "not_found", "throttled", "unreachable", "busy", "credential_rejected", "failed"}}
	pushed          = Label{Name: "easel.push.event", Values: []string{"update", "heartbeat", "caught_up"}}
	generationState = Label{Name: "easel.generation.state", Values: []string{"queued", "running", "succeeded", "failed", "refunded", "deleted", "unrecognized"}}
	version         = Label{Name: "service.version", Of: "version of this build"}
	goVersion       = Label{Name: "process.runtime.version", Of: "version of Go"}
)

// Table contains every metric of the program. No other metrics are exported. No name is a prefix of another name. The last part
// of a name may be plural if it names things that are counted, as in easel.orders. All other parts are singular, as in
// easel.order.charged.
var Table = []Metric{
	{
		Name: "rpc.server.call.duration", Kind: Histogram, Unit: "s", Buckets: seconds,
		Labels: []Label{rpcMethod, {Name: "rpc.response.status_code", Of: "names of gRPC codes"}},
		Text:   "Calls over gRPC and REST. A stream is counted when it ends.",
	},
	{
		Name: "http.server.request.duration", Kind: Histogram, Unit: "s", Buckets: seconds,
		Labels: []Label{httpMethod, {Name: "http.route", Of: "the routes of the contract; none for a path without a route"}, httpCode},
		Text:   "REST requests, except requests whose response was interrupted. A request that reaches a method of the contract also counts as a call.",
	},
	{
		Name: "http.client.request.duration", Kind: Histogram, Unit: "s", Buckets: attempts,
		Labels: []Label{httpMethod, {Name: "url.template", Of: "the routes of the catalog"}, httpCode, {Name: "error.type", Of: "Go error types, if there was no response"}},
		Text:   "Attempts to send requests to the catalog, measured until the response header arrives. With status 429, the catalog asks for fewer requests.",
	},
	{
		Name: "easel.stream.open", Kind: UpDown, Unit: "{stream}", Labels: []Label{rpcMethod},
		Text: "Watches, waits and downloads that are open.",
	},
	{
		Name: "easel.stream.closures", Kind: Counter, Unit: "{stream}",
		Labels: []Label{rpcMethod, {Name: "easel.stream.reason", Values: []string{
			"done", "caller_left", "deadline", "draining", "max_age", "reader_too_slow", "credential_rejected", "refused", "failed",
		}}},
		Text: "Watches, waits and downloads that have ended, by reason.",
	},
	{
		Name: "easel.content.sent", Kind: Counter, Unit: "By", Labels: []Label{rpcMethod},
		Text: "Bytes of results sent to callers.",
	},
	{
		Name: "easel.pushes", Kind: Counter, Unit: "{message}",
		Labels: []Label{pushed},
		Text:   "Events delivered to watches and waits.",
	},
	{
		Name: "easel.heartbeat.age", Kind: Histogram, Unit: "s", Buckets: delays,
		Text: "Age of the catalog's last answer for the watched generations, at each heartbeat.",
	},
	{
		Name: "easel.watch.open", Kind: UpDown, Unit: "{watch}", From: Hub,
		Text: "Open watches and waits.",
	},
	{
		Name: "easel.generation.active", Kind: UpDown, Unit: "{generation}", From: Hub,
		Text: "Generations that are polled, because a watch or an unsettled order waits for their state.",
	},
	{
		Name: "easel.generation.stalest", Kind: Gauge, Unit: "s", From: Hub,
		Text: "Longest time since the catalog last answered for an active generation.",
	},
	{
		Name: "easel.credentials", Kind: UpDown, Unit: "{credential}", From: Hub, Labels: []Label{condition},
		Text: "API keys that are used for polls, by the catalog's condition.",
	},
	{
		Name: "easel.credential.paused", Kind: UpDown, Unit: "{credential}", From: Hub,
		Text: "API keys whose polls are paused, because the catalog asked for a pause or does not answer.",
	},
	{
		Name: "easel.limiter.waiting", Kind: UpDown, Unit: "{request}", From: Limiters, Labels: []Label{waiter, class},
		Text: "Requests to the catalog that wait for a permit from their API key's limiter.",
	},
	{
		Name: "easel.limiter.wait", Kind: Gauge, Unit: "s", From: Limiters,
		Text: "Longest time that a request has waited for its permit.",
	},
	{
		Name: "easel.limiter.closed", Kind: UpDown, Unit: "{credential}", From: Limiters, Labels: []Label{closedBy},
		Text: "API keys whose limiter is closed. rate_limited: the catalog asked for a pause with status 429; unavailable: with status 503 and Retry-After; daily_cap: the daily cap is reached.",
	},
	{
		Name: "easel.limiter.opens", Kind: Gauge, Unit: "s", From: Limiters,
		Text: "Time until the end of the latest pause that the catalog requested (0 if there is no pause).",
	},
	{
		Name: "easel.poll.ready", Kind: Gauge, Unit: "{request}", From: Hub,
		Text: "Number of polls that may be sent immediately, for the API key with the lowest number.",
	},
	{
		Name: "easel.poll.rate", Kind: Gauge, Unit: "{request}/s", From: Hub,
		Text: "Lowest poll rate among the API keys: EASEL_POLL_RATE, or less after a 429.",
	},
	{
		Name: "easel.polls", Kind: Counter, Unit: "{request}",
		Labels: []Label{pollKind, polled},
		Text:   "Polls: reads of one generation, sweeps (one list call for many generations), and reads of the account.",
	},
	{
		Name: "easel.changes", Kind: Counter, Unit: "{change}",
		Labels: []Label{generationState},
		Text:   "New states of generations that polls found.",
	},
	{
		Name: "easel.detection.delay", Kind: Histogram, Unit: "s", Buckets: delays,
		Text: "Time from a new state to its detection, as estimated by the poll schedule. A test compares the estimates with the sandbox's times.",
	},
	{
		Name: "easel.update.conflated", Kind: Counter, Unit: "{update}", From: Hub,
		Text: "Updates that a newer update replaced before they were delivered to the watcher.",
	},
	{
		Name: "easel.update.regressed", Kind: Counter, Unit: "{update}", From: Hub,
		Text: "Responses from the catalog that were dropped, because their state was older than the known state.",
	},
	{
		Name: "easel.orders", Kind: Counter, Unit: "{order}",
		Labels: []Label{ordered},
		Text:   "Orders sent to the catalog, by outcome. All attempts and all callers with one idempotency key count as one order. placed_unpriced: the response had no readable cost.",
	},
	{
		Name: "easel.order.charged", Kind: Counter, Unit: "{cent}", Labels: []Label{model, caller},
		Text: "Euro cents charged for orders, as stated in the catalog's responses; refunds are not subtracted. An order that a ledger in memory has deleted counts again if repeated.",
	},
	{
		Name: "easel.ledger.up", Kind: Gauge, Unit: "{ledger}", From: Ledger,
		Text: "1 if the ledger is available; otherwise 0, and new orders are rejected.",
	},
	{
		Name: "easel.ledger.spent", Kind: Gauge, Unit: "{cent}", From: Ledger, Labels: []Label{owner},
		Text: "Euro cents charged for an owner's orders since the ledger was created; refunds are not subtracted. The value is the same on every replica. An operator may correct the value.",
	},
	{
		Name: "easel.ledger.refunded", Kind: Gauge, Unit: "{cent}", From: Ledger, Labels: []Label{owner},
		Text: "Euro cents refunded for all orders of an owner.",
	},
	{
		Name: "easel.ledger.reserved", Kind: Gauge, Unit: "{cent}", From: Ledger, Labels: []Label{owner},
		Text: "Euro cents reserved for orders whose cost is not known yet.",
	},
	{
		Name: "easel.ledger.unconfirmed", Kind: Gauge, Unit: "{cent}", From: Ledger, Labels: []Label{owner},
		Text: "Part of easel.ledger.spent: euro cents that may not have been charged, or may be refunded.",
	},
	{
		Name: "easel.ledger.budget.limit", Kind: Gauge, Unit: "{cent}", From: Ledger, Labels: []Label{owner, window},
		Text: "Budget of an owner for today or this month, in euro cents.",
	},
	{
		Name: "easel.ledger.budget.left", Kind: Gauge, Unit: "{cent}", From: Ledger, Labels: []Label{owner, window},
		Text: "Remaining budget of an owner for today or this month, in euro cents.",
	},
	{
		Name: "easel.ledger.order.unknown", Kind: Gauge, Unit: "{order}", From: Ledger,
		Text: "Orders whose outcome is unknown, including orders in flight.",
	},
	{
		Name: "easel.ledger.order.oldest", Kind: Gauge, Unit: "s", From: Ledger,
		Text: "Age of the oldest order whose outcome is unknown (0 if there is no such order).",
	},
	{
		Name: "easel.ledger.faults", Kind: Counter, Unit: "{fault}", From: Ledger,
		Text: "Contradictions in the ledger that this process found: two orders have the same generation, an order has two generations, or a change contradicts the ledger. The log describes each.",
	},
	{
		Name: "easel.ledger.dearer", Kind: Counter, Unit: "{order}", From: Ledger,
		Text: "Orders that cost more than the catalog had quoted.",
	},
	{
		Name: "easel.events", Kind: Counter, Unit: "{event}", Labels: []Label{owner, eventOutcome},
		Text: "Attempts by this process to send an event to a team's receiver. sent: accepted; failed: sent again later; given_up: sent again only by easel events replay.",
	},
	{
		Name: "easel.event.pending", Kind: Gauge, Unit: "{event}", From: Ledger, Labels: []Label{owner},
		Text: "Events of a team that its receiver has not accepted yet. The value is the same on every replica.",
	},
	{
		Name: "easel.event.oldest", Kind: Gauge, Unit: "s", From: Ledger, Labels: []Label{owner},
		Text: "Age of the oldest event that a team's receiver has not accepted yet.",
	},
	{
		Name: "easel.content.copies", Kind: Counter, Unit: "{copy}", From: Contents, Labels: []Label{copyOutcome},
		Text: "Attempts by this process to copy a result into the store at EASEL_CONTENT_URL. After a failed attempt, Easel tries again for up to a week.",
	},
	{
		Name: "easel.content.copied", Kind: Counter, Unit: "By", From: Contents,
		Text: "Bytes that this process has copied into the store.",
	},
	{
		Name: "easel.content.reads", Kind: Counter, Unit: "{read}", From: Contents, Labels: []Label{contentSource},
		Text: "Reads of results that have a copy. The source is catalog if the store failed.",
	},
	{
		Name: "easel.content.waiting", Kind: Gauge, Unit: "{result}", From: Contents,
		Text: "Results that wait to be copied. The value is the same on every replica.",
	},
	{
		Name: "easel.content.failed", Kind: Gauge, Unit: "{result}", From: Contents,
		Text: "Results whose copy was abandoned, because all attempts in a week failed.",
	},
	{
		Name: "easel.content.oldest_waiting", Kind: Gauge, Unit: "s", From: Contents,
		Text: "Age of the oldest result that waits to be copied (0 if no result waits).",
	},
	{
		Name: "db.client.operation.duration", Kind: Histogram, Unit: "s", Buckets: attempts,
		Labels: []Label{{Name: "db.system.name", Values: []string{"sqlite", "postgresql"}}, {Name: "db.operation.name", Of: `"statements" for one round trip with statements, or "commit"`}, {Name: "error.type", Of: "Go error types, if the operation failed"}},
		Text:   "Operations on the ledger's database.",
	},
	{
		Name: "easel.setting.broken", Kind: UpDown, Unit: "{file}", From: Settings, Labels: []Label{setting},
		Text: "Settings files that can't be read or applied, and issuers whose keys can't be read. The previous content stays in effect.",
	},
	{
		Name: "easel.build.info", Kind: Gauge, Unit: "{build}",
		Labels: []Label{version, goVersion},
		Text:   "Always 1.",
	},
	{Name: "go.memory.used", Kind: UpDown, Unit: "By", Labels: []Label{{Name: "go.memory.type", Values: []string{"other", "stack"}}}, Text: "Memory that the Go runtime uses."},
	{Name: "go.memory.limit", Kind: UpDown, Unit: "By", Text: "GOMEMLIMIT, if it is set."},
	{Name: "go.memory.allocated", Kind: Counter, Unit: "By", Text: "Memory allocated on the heap."},
	{Name: "go.memory.allocations", Kind: Counter, Unit: "{allocation}", Text: "Allocations on the heap."},
	{Name: "go.memory.gc.goal", Kind: UpDown, Unit: "By", Text: "Size of the heap at which the next collection ends."},
	{Name: "go.goroutine.count", Kind: UpDown, Unit: "{goroutine}", Text: "Goroutines."},
	{Name: "go.processor.limit", Kind: UpDown, Unit: "{thread}", Text: "GOMAXPROCS."},
	{Name: "go.config.gogc", Kind: UpDown, Unit: "%", Text: "GOGC."},

	{Name: "process_cpu_seconds_total", Kind: Counter, Unit: "s", Scraped: true, Text: "CPU time of the process."},
	{Name: "process_open_fds", Kind: Gauge, Unit: "{descriptor}", Scraped: true, Text: "Open file descriptors."},
	{Name: "process_max_fds", Kind: Gauge, Unit: "{descriptor}", Scraped: true, Text: "Maximum number of open file descriptors."},
	{Name: "process_virtual_memory_bytes", Kind: Gauge, Unit: "By", Scraped: true, Text: "Address space."},
	{Name: "process_virtual_memory_max_bytes", Kind: Gauge, Unit: "By", Scraped: true, Text: "Maximum size of the address space."},
	{Name: "process_resident_memory_bytes", Kind: Gauge, Unit: "By", Scraped: true, Text: "Resident memory."},
	{Name: "process_start_time_seconds", Kind: Gauge, Unit: "s", Scraped: true, Text: "Start time of the process, in seconds since 1970."},
	{Name: "process_network_receive_bytes_total", Kind: Counter, Unit: "By", Scraped: true, Text: "Bytes that the machine's network has received."},
	{Name: "process_network_transmit_bytes_total", Kind: Counter, Unit: "By", Scraped: true, Text: "Bytes that the machine's network has sent."},
	{
		Name: "target_info", Kind: Gauge, Scraped: true, Labels: []Label{{Name: "service.name"}, {Name: "service.version"}, {Name: "telemetry.sdk.language"}, {Name: "telemetry.sdk.name"}, {Name: "telemetry.sdk.version"}},
		Text: "Always 1. The labels are the attributes of the resource, including OTEL_RESOURCE_ATTRIBUTES.",
	},
}
