package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

const defaultEventHeartbeat = 15 * time.Second

// WatchEvents sends the events of the caller's owner. For an operator, it sends the events of all owners, or of the
// owner that the request selects.
func (s *generations) WatchEvents(req *easelv1.WatchEventsRequest, stream grpc.ServerStreamingServer[easelv1.WatchEventsResponse]) error {
	ctx := stream.Context()
	if !auth.Of(ctx).SharesAPIKey() {
		return InvalidRequest(Violation{Field: "authorization", Description: "orders under your own API key have no events; use WatchGenerations"})
	}
	owner, err := eventOwner(ctx, req.GetFilter())
	if err == nil {
		err = checkEventTypes(req.GetFilter().GetTypes())
	}
	if err != nil {
		return err
	}
	w := &watchOfEvents{service: s, out: s.sender(stream), known: s.StillKnown(ctx), owner: owner, types: req.GetFilter().GetTypes()}
	if err = w.begin(ctx, req); err != nil {
		return err
	}
	w.heartbeat = defaultEventHeartbeat
	if every := req.GetHeartbeatInterval(); every != nil {
		w.heartbeat = every.AsDuration()
	}
	err = s.convertWatchError(w.run(ctx, s.watchEnd(ctx)))
	if closing := closingMessage(err); closing != nil {
		_ = w.send(&easelv1.WatchEventsResponse{Message: &easelv1.WatchEventsResponse_Closing{Closing: closing}})
	}
	return err
}

// eventOwner returns the owner whose events the caller receives. Nil means all owners.
func eventOwner(ctx context.Context, filter *easelv1.EventFilter) (*string, error) {
	owner := viewer(ctx)
	if asked := filter.GetOwner(); asked != "" {
		if owner != nil {
			return nil, InvalidRequest(Violation{Field: "filter.owner", Description: "only an operator may select an owner; omit owner to receive your own events"})
		}
		owner = &asked
	}
	return owner, nil
}

// checkEventTypes returns an error that lists the unknown types, or nil if all types are known. No event would ever match
// an unknown type.
func checkEventTypes(types []string) error {
	var unknown []Violation
	for i, name := range types {
		if !slices.Contains(ledger.EventTypes, name) {
			unknown = append(unknown, Violation{Field: fmt.Sprintf("filter.types[%d]", i), Description: "unknown type; the types are " + strings.Join(ledger.EventTypes, ", ")})
		}
	}
	if unknown == nil {
		return nil
	}
	return InvalidRequest(unknown...)
}

// watchOfEvents sends the events of one owner or of all owners.
type watchOfEvents struct {
	service   *generations
	out       deadlineSender
	known     func() error // returns an error if the caller is no longer authorized
	owner     *string      // nil means all owners
	types     []string     // types of the events to send; empty means all types
	heartbeat time.Duration

	feed     string // ID of the feed; see [ledger.FeedState]
	position int64  // position of the last event that was sent or filtered out
	caughtUp bool
}

// begin sets the position after which the stream starts.
func (w *watchOfEvents) begin(ctx context.Context, req *easelv1.WatchEventsRequest) error {
	led := w.service.cfg.Orders.Ledger
	state, err := led.FeedState(ctx, rand.Text())
	if err != nil {
		return err
	}
	switch w.feed, w.position = state.ID, state.Last; {
	case req.GetResumeToken() != "":
		return w.resume(req.GetResumeToken(), state)
	case req.GetStartTime() != nil:
		w.position, err = led.FeedStart(ctx, w.owner, req.GetStartTime().AsTime())
	}
	return err
}

// resume sets the position from a resume token. It returns an error if the token is invalid or belongs to another feed,
// or if events after its position may have been deleted.
func (w *watchOfEvents) resume(token string, state ledger.FeedState) error {
	text, _ := base64.RawURLEncoding.DecodeString(token)
	feed, rest, _ := strings.Cut(string(text), ".")
	digits, _, _ := strings.Cut(rest, ".")
	position, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || token != w.token(feed, position) {
		return InvalidRequest(Violation{Field: "resume_token", Description: "is not a token for these events; send the last token that you received for the same owner, or none"})
	}
	if feed != state.ID || position < state.Deleted || position > state.Last {
		metadata := map[string]string{}
		if !state.Oldest.IsZero() {
			metadata["oldest_time"] = state.Oldest.Format(time.RFC3339Nano)
		}
		return NewStatus(easelv1.ErrorReason_RESUME_TOKEN_EXPIRED, "events after the resume_token may have been deleted; start again without it", metadata).Err()
	}
	w.position = position
	return nil
}

// token returns the resume token for a position. The token contains the feed, the position, and a digest of the feed, the
// position and the owner. The digest makes the token valid only for the same owner.
func (w *watchOfEvents) token(feed string, position int64) string {
	owner := "all"
	if w.owner != nil {
		owner = "one " + *w.owner
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q", feed, position, owner))
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s.%d.%s", feed, position, hex.EncodeToString(sum[:8])))
}

// run sends events until the stream ends.
func (w *watchOfEvents) run(ctx context.Context, until time.Time) error {
	reader := w.service.cfg.Feed.Reader(w.owner)
	defer reader.Close()
	age, stop := context.WithCancel(ctx)
	if !until.IsZero() {
		age, stop = context.WithDeadline(ctx, until)
	}
	defer stop()
	silence := time.NewTimer(w.heartbeat)
	defer silence.Stop()
	for {
		select {
		case <-reader.Ready:
			sent, err := w.sendNext(ctx, reader)
			if err != nil {
				return err
			}
			if sent {
				silence.Reset(w.heartbeat)
			}
		case <-silence.C:
			if err := w.beat(); err != nil {
				return err
			}
			silence.Reset(w.heartbeat)
		case <-w.service.draining:
			return watch.ErrDraining
		case <-age.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return watch.ErrExpired
		}
	}
}

// sendNext sends the next events to the caller, and reports whether it has sent a message. If the ledger is
// unavailable, it waits and sends nothing.
func (w *watchOfEvents) sendNext(ctx context.Context, reader *events.FeedReader) (sent bool, err error) {
	all, isCurrent, err := reader.Next(ctx, w.position)
	if err != nil {
		return false, w.pauseAfter(ctx, err)
	}
	if err := w.known(); err != nil {
		return false, err
	}
	for _, e := range all {
		if e.Position <= w.position {
			continue // already read
		}
		w.position = e.Position
		if len(w.types) > 0 && !slices.Contains(w.types, e.Type) {
			continue
		}
		if err := w.send(&easelv1.WatchEventsResponse{Message: &easelv1.WatchEventsResponse_Event{Event: eventMessage(e)}}); err != nil {
			return sent, err
		}
		sent = true
	}
	if isCurrent && !w.caughtUp {
		w.caughtUp, sent = true, true
		err = w.send(&easelv1.WatchEventsResponse{Message: &easelv1.WatchEventsResponse_CaughtUp{CaughtUp: &easelv1.CaughtUp{}}})
	}
	return sent, err
}

// ledgerPause is the time between two attempts to read a ledger that does not respond.
const ledgerPause = time.Second

// pauseAfter waits for [ledgerPause], so that the stream outlasts an outage of the ledger. readErr is the error from the last
// read of the ledger. pauseAfter returns an error immediately if the call has ended, or if a retry would not fix the error
// from the last read.
func (w *watchOfEvents) pauseAfter(ctx context.Context, readErr error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if ledger.IsFault(readErr) {
		return readErr
	}
	select {
	case <-time.After(ledgerPause):
	case <-ctx.Done():
	case <-w.service.draining:
	}
	return nil
}

func (w *watchOfEvents) beat() error {
	if err := w.known(); err != nil {
		return err
	}
	return w.send(&easelv1.WatchEventsResponse{Message: &easelv1.WatchEventsResponse_Heartbeat{Heartbeat: &easelv1.Heartbeat{}}})
}

func (w *watchOfEvents) send(m *easelv1.WatchEventsResponse) error {
	m.EmitTime, m.ResumeToken = timestamppb.Now(), w.token(w.feed, w.position)
	return w.out.send(m)
}

// eventMessage converts an event to a message. The data of the event describes a render or a budget.
func eventMessage(e ledger.FeedEvent) *easelv1.Event {
	m := &easelv1.Event{EventId: e.ID, Type: e.Type, CreateTime: timestamppb.New(e.Time), Owner: e.Owner}
	decode := protojson.UnmarshalOptions{DiscardUnknown: true}
	if e.Type == ledger.EventBudget {
		m.Budget = &easelv1.Budget{}
		_ = decode.Unmarshal([]byte(e.Data), m.GetBudget()) // can't fail, because [EventData.Budget] wrote the data
		return m
	}
	m.Generation = &easelv1.Generation{}
	_ = decode.Unmarshal([]byte(e.Data), m.GetGeneration()) // can't fail, because [EventData.Generation] wrote the data
	return m
}
