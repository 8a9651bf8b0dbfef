// Package sandbox is a complete catalog with test money: the default upstream for development, demos and tests.
//
// It implements the specification over HTTP: API keys, prices, generations that take time, pictures and texts, refunds and
// limits. Money is recorded in an append-only ledger in SQLite. An order is one transaction, and a failed generation is
// refunded exactly once, even if the process is killed. [Audit.Check] verifies this.
//
// The sandbox can also be as difficult as a real upstream. A [Dialect] changes the shapes that the specification leaves open. A
// [Fault] breaks selected requests.
//
// A sandbox in memory works inside a testing/synctest bubble, for simulations of years. It has no timer, goroutine or channel
// outside the bubble, and is idle between requests and due steps. It never deletes the row of a generation.
//
// # Choices
//
// The specification leaves the following open. A * marks the choices that a [Dialect] can change.
//
//	API keys          each new API key has its own account and balance; only the key's SHA-256 is stored
//	GET /me           name, balanceCents, currency, spentTodayCents, dailyCapCents if there is a cap *
//	models            id, name, description, type ("image" or "text"), and, only in the detail, inputFields *
//	unknown model     400 with field modelId on quote and create, 404 MODEL_NOT_FOUND on detail
//	quote             {"priceCents": 12}; an order is charged the price that the same function returns *
//	create            201; a repeated Idempotency-Key returns 200, the current generation and the header
//	                  Idempotency-Replayed: true; bodies are compared as JSON
//	reused key        422 IDEMPOTENCY_KEY_REUSED; a key has 1 to 255 visible ASCII characters and is kept
//	                  forever; the key of a rejected order is not kept, so an order that was rejected
//	                  with 402 can be repeated after a top-up
//	generation        id, modelId, inputs as sent, status, costCents, createdAt, finishedAt, contentUrl,
//	                  textOutput, failureReason *
//	contentUrl        absolute, with the host of the request
//	failures          "failed" for Config.RefundDelay, then "refunded"; the transaction that sets "refunded"
//	                  also books the refund *
//	list              the newest 100 generations, newest first; no query parameters *
//	content           Content-Type, Content-Length, ETag, Range and conditions *; 409 CONTENT_NOT_READY
//	                  for a queued generation; 404 NO_CONTENT for a text, failed or refunded one
//	delete            204, then 404. An unfinished generation is deleted without a refund. A pending
//	                  refund of a failed generation is booked immediately. The ledger keeps all entries.
//	deleted, resent   the Idempotency-Key of a deleted generation still returns the generation's last state
//	unknown IDs       404; the same error for a generation of another account
//	daily cap         counts the charges of a day in UTC; refunds do not lower the sum; the balance is checked first
//	request rate      token bucket for each API key; 429 RATE_LIMITED with Retry-After in whole seconds
//	errors            {"code", "message", "details": {"field": "inputs.prompt"}} *
//	other statuses    404 unknown path or method, 413 body above 17 MiB, 415 not JSON, 503 closing
//	failure on demand a prompt that contains [fail] fails; Config.FailureRate adds random failures
//
// Committed transactions survive if the process is killed. A power failure may lose the last transactions, but never only a part
// of a transaction. After a restart, an interrupted generation is rendered again, and an overdue generation finishes immediately.
package sandbox
