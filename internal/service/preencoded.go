package service

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// updateResponse returns the message that sends an update to one watcher. update is the encoded part that is the same
// for all watchers. It is stored in the message's unknown fields, which are sent unchanged.
func updateResponse(update []byte, sent time.Time) *easelv1.WatchGenerationResponse {
	message := &easelv1.WatchGenerationResponse{EmitTime: timestamppb.New(sent)}
	message.ProtoReflect().SetUnknown(update)
	return message
}

// encodingsOf returns the encodings of an update, which its watchers share.
func encodingsOf(u *watch.Update) *encodings {
	return u.Memo.Get(func() any { return new(encodings) }).(*encodings)
}

// attributionTTL is the maximum age of an attribution that is reused for other watchers of the same update. An
// attribution contains a generation's owner, caller, model and labels, and comes from the ledger.
const attributionTTL = 100 * time.Millisecond

// encodings caches the encodings of one update, one for each attribution. Most watchers receive the same attribution. While the
// ledger is unavailable, a watcher can receive an attribution without labels.
type encodings struct {
	asks singleflight.Group // concurrent watchers share one query for the attribution

	mu      sync.Mutex
	all     []encoding
	whose   ledger.Attribution // attribution that the last successful query returned
	askedAt time.Time          // time when the last successful query started
}

// cachedAttribution returns the attribution of the update's generation. If the last successful query started less than
// attributionTTL ago, it returns that query's result. Otherwise it calls queryLedger.
func (e *encodings) cachedAttribution(queryLedger func() (ledger.Attribution, error)) (ledger.Attribution, error) {
	e.mu.Lock()
	whose, askedAt := e.whose, e.askedAt
	e.mu.Unlock()
	if time.Since(askedAt) < attributionTTL {
		return whose, nil
	}
	answer, err, _ := e.asks.Do("", func() (any, error) {
		began := time.Now()
		whose, err := queryLedger()
		if err == nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.whose, e.askedAt = whose, began
		}
		return whose, err
	})
	return answer.(ledger.Attribution), err
}

type encoding struct {
	whose  ledger.Attribution
	update []byte
}

// encode returns the encoding of an update with the given attribution. It returns nil if the encoding fails.
func (e *encodings) encode(u *watch.Update, whose ledger.Attribution) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := slices.IndexFunc(e.all, func(one encoding) bool { return one.whose.Equal(whose) })
	if at >= 0 {
		return e.all[at].update
	}
	update, _ := proto.Marshal(&easelv1.WatchGenerationResponse{
		Event: &easelv1.WatchGenerationResponse_Update{Update: updateMessage(u, whose)},
	}) // encoding fails only for invalid UTF-8, which clean removes
	e.all = append(e.all, encoding{whose, update})
	return update
}
