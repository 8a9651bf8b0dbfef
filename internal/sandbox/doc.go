// Package sandbox implements a complete catalog with test money. It is the default upstream for development, demos and tests.
//
// It implements the specification over HTTP: API keys, prices, generations that take time, pictures and texts, refunds and
// limits. Money is recorded in an append-only ledger in SQLite. An order is one transaction, and a failed generation is
// refunded exactly once, even if the process is killed. [Audit.Check] verifies this.
//
// The sandbox can also imitate the differences and failures of real catalogs. A [Dialect] changes points that the specification
// leaves open. A [Fault] makes selected requests fail.
//
// An in-memory sandbox works inside a testing/synctest bubble, so a test can simulate years. All its timers, goroutines and
// channels belong to the bubble, and all its goroutines are blocked between requests and scheduled steps.
//
// # Choices
//
// The specification leaves the following points open. A * marks the points that a [Dialect] can change. [Repeats] can change
// the handling of repeated Idempotency-Keys.
//
//	API keys          each new API key has its own account and balance; only the key's SHA-256 is stored
//	GET /me           name, balanceCents, currency, spentTodayCents, dailyCapCents if there is a cap *
//	models            id, name, description, type ("image" or "text"), and, only in the detail, inputFields *
//	unknown model     400 with field modelId on quote and create, 404 MODEL_NOT_FOUND on detail
//	quote             {"priceCents": 12}; the price of an order is computed by the same function *
//	create            201; a repeated Idempotency-Key returns 200, the generation in its current state and
//	                  the header Idempotency-Replayed: true
//	reused key        422 IDEMPOTENCY_KEY_REUSED if the bodies differ as JSON; a key has 1 to 255 visible
//	                  ASCII characters and is kept forever; the key of a rejected order is not kept, so
//	                  an order that was rejected with 402 can be repeated after a top-up
//	generation        id, modelId, inputs as sent, status, costCents, createdAt, finishedAt, contentUrl,
//	                  textOutput, failureReason *
//	contentUrl        absolute, with the host of the request
//	failures          "failed" for Config.RefundDelay, then "refunded"; the transaction that sets "refunded"
//	                  also books the refund *
//	list              the newest 100 generations, newest first; no query parameters *
//	content           Content-Type, Content-Length, ETag, Range and conditional requests *; 409
//	                  CONTENT_NOT_READY for a queued generation; 404 NO_CONTENT for a generation without
//	                  a file, because it failed or its result is a text
//	delete            204, then 404. An unfinished generation is deleted without a refund. A pending
//	                  refund of a failed generation is booked immediately. The database keeps the
//	                  generation's row, and the ledger keeps all entries.
//	deleted, resent   a resent order whose generation was deleted returns the generation's last state
//	unknown IDs       404; the same error for a generation of another account
//	daily cap         counts the charges of a day in UTC; refunds do not lower the sum; the balance is checked first
//	request rate      token bucket for each account; 429 RATE_LIMITED with Retry-After in whole seconds
//	errors            {"code", "message", "details": {"field": "inputs.prompt"}} *
//	other statuses    404 for an unknown path or method, 413 for a body larger than 17 MiB, 415 for a body
//	                  that is not JSON, 503 while the sandbox is closing
//	failure on demand a prompt that contains [fail] fails; Config.FailureRate adds random failures
//
// Committed transactions survive if the process is killed. A power failure may lose the last transactions, but never only a part
// of a transaction. After a restart, an interrupted generation is rendered again, and an overdue generation finishes immediately.
package sandbox
