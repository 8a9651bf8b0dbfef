package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Journal has an order written down before it leaves, and its outcome before anybody is told. The
// methods are called one after the other, on the goroutine of the submission, which may outlive the call.
// Beside a journal this package remembers nothing of an order after its submission.
type Journal interface {
	// Next is asked before each attempt. cred has the API key of every attempt of the submission. An error ends
	// the submission; MayExist and Free count beside it too.
	Next(ctx context.Context, cred Credential) (Turn, error)
	// Conclude is called once, after the last attempt, with what the catalog has said. certain means that no
	// attempt of the submission or before it can have been taken, and is false where err is nil. Conclude gives
	// what the callers are told.
	Conclude(ctx context.Context, g Generation, err error, certain bool) (Generation, error)
}

// Turn is what a journal says before an attempt: to send the order, to ask again after a pause, or that it was
// placed before.
type Turn struct {
	Inputs   json.RawMessage // what is sent
	LeaveBy  time.Time       // what is not sent by then is not sent; zero: whenever
	MayExist bool            // an earlier attempt may have been taken
	Free     bool            // the idempotency key is free: no attempt of another submission has been taken, whatever an earlier turn said
	Pause    time.Duration   // before Next is asked again; 0 sends the order now
	Placed   *Receipt        // set where the order was placed before
}

// receipt is that of an order that was placed before.
func (t Turn) receipt() (r Receipt) {
	if t.Placed != nil {
		r = *t.Placed
		r.Replayed = true
	}
	return r
}

// APIKeySum is the SHA-256 of the API key, in hex: the same in every process.
func (c Credential) APIKeySum() string {
	sum := sha256.Sum256([]byte(c.APIKey().Reveal()))
	return hex.EncodeToString(sum[:])
}
