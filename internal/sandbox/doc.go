// Package sandbox is a complete catalog that plays with money of its own: the default upstream for
// development, demos and tests.
//
// It implements the whole specification over HTTP: API keys, prices, generations that take time, real
// pictures and texts, refunds and limits. Money is kept in an append-only ledger on SQLite, a create is one
// transaction, a failed generation is refunded exactly once, and all of that survives a kill of the process.
// [Sandbox.Audit] proves it after the fact.
//
// It can also be as difficult as a real upstream. A [Dialect] changes the shapes that the specification
// leaves open, and a [Fault] breaks chosen requests in chosen ways.
//
// A sandbox in memory works inside a testing/synctest bubble: with Path empty it keeps no timer, goroutine
// or channel outside of it, and generations take virtual time. It is made for simulations of years: it does
// no work while nothing happens, and opens at once. It never forgets a generation. BenchmarkRequests and
// BenchmarkLives measure its time and memory.
//
// # Choices where the specification shows nothing
//
// Those marked with a * have a switch in [Dialect].
//
//	API keys          one API key is one account with one balance; only its SHA-256 is stored
//	GET /me           name, balanceCents, currency, spentTodayCents, dailyCapCents where there is a cap
//	models            id, name, description, type ("image" or "text"), inputFields in the detail only *
//	input fields      name, label, description, type, required, default, enum, min and max (minLength,
//	                  minItems …), items of an array, properties of an object *
//	unknown model     400 with field modelId on quote and create, 404 MODEL_NOT_FOUND on detail
//	quote             {"priceCents": 12}; the same function prices the charge *
//	create            201; a resent Idempotency-Key 200 with the generation as it is by then, and the header
//	                  Idempotency-Replayed: true; the check compares bodies as JSON, not as bytes
//	reused key        422 IDEMPOTENCY_KEY_REUSED; idempotency keys are kept for ever, 1 to 255 visible
//	                  ASCII characters; a refused create is not kept, so 402 can be resent after a top-up
//	generation        id, modelId, inputs as sent, status, costCents, createdAt, finishedAt, contentUrl,
//	                  textOutput, failureReason *
//	contentUrl        absolute, by the host that the client used
//	failures          "failed" for Config.RefundDelay, then "refunded" with the refund in that transaction *
//	list              the newest 100, newest first, no query parameters *
//	content           Content-Type, Content-Length, ETag, Range and conditions *; queued: 409
//	                  CONTENT_NOT_READY; text, failed or refunded: 404 NO_CONTENT
//	delete            204, then 404. An unfinished generation is dropped and not refunded. A failed one whose
//	                  refund is still to come gets it then. The ledger keeps all entries.
//	deleted, resent   the Idempotency-Key of a deleted generation still answers with its last state
//	foreign ids       404 for an id of another API key, exactly as for an unknown id
//	daily cap         counts the charges of a calendar day in UTC; refunds do not lower it; the balance
//	                  is checked first
//	request rate      token bucket for each API key, of all routes or of one; 429 RATE_LIMITED with Retry-After in
//	                  whole seconds
//	errors            {"code", "message", "details": {"field": "inputs.prompt"}} *
//	other statuses    404 unknown path, 405 wrong method, 413 body above 1 MiB, 415 not JSON, 503 closing
//	failure on demand a prompt that contains [fail] fails; Config.FailureRate adds random failures
//
// # Durability
//
// Commits survive the end of the process at any moment (WAL, synchronous=NORMAL). A power cut may take
// the last ones, as a whole, never in part. An interrupted generation is drawn again; one that is overdue
// after a restart ends at once.
//
// # Pictures
//
// Package paint draws them: a few hundred lines of noise, palettes and perspective. None is stored.
package sandbox
