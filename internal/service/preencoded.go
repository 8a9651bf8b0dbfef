package service

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// updateResponse returns the message of an update for one watcher. The update is encoded once for all its watchers, who
// share the bytes as unknown fields: those are sent as they are.
func updateResponse(update []byte, sent time.Time) *easelv1.WatchGenerationResponse {
	message := &easelv1.WatchGenerationResponse{EmitTime: timestamppb.New(sent)}
	message.ProtoReflect().SetUnknown(update)
	return message
}

// encodeUpdate encodes an update, once for all its watchers who know the same of whose it is. One that can't be encoded is
// nil.
func encodeUpdate(u *watch.Update, whose ledger.Attribution) []byte {
	return u.Memo.Get(func() any { return new(encodings) }).(*encodings).of(u, whose)
}

// encodings are those of one update. There are few: its watchers know whose it is, or they do not.
type encodings struct {
	mu  sync.Mutex
	all []encoding
}

type encoding struct {
	whose  ledger.Attribution
	update []byte
}

// of gives the encoding for those who know so much.
func (e *encodings) of(u *watch.Update, whose ledger.Attribution) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := slices.IndexFunc(e.all, func(one encoding) bool { return one.whose.Equal(whose) })
	if at >= 0 {
		return e.all[at].update
	}
	update, _ := proto.Marshal(&easelv1.WatchGenerationResponse{
		Event: &easelv1.WatchGenerationResponse_Update{Update: updateMessage(u, whose)},
	}) // it fails for text alone that is no UTF-8, and text is cleaned
	e.all = append(e.all, encoding{whose, update})
	return update
}
