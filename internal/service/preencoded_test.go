package service

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// allUpdates returns one update of each kind that a watch can send.
func allUpdates() map[string]*watch.Update {
	text, now := strings.Repeat("a poem\n", 10_000), time.Date(2026, 5, 4, 3, 2, 1, 7, time.UTC)
	g := catalog.Generation{ID: "gen_1", ModelID: "studio/haiku", State: catalog.StateRunning, Status: "processing", CreateTime: now, ObserveTime: now}
	done, broken := g, g
	done.State, done.Text, done.TerminalTime = catalog.StateSucceeded, &text, now
	broken.Status, broken.Extra = "\xff", catalog.Value(`{"n":null}`)
	return map[string]*watch.Update{
		"empty update":  {},
		"running":       {Version: catalog.Version{Generation: g, Etag: "e"}},
		"first":         {Version: catalog.Version{Generation: g, Etag: "e"}, Initial: true},
		"a long text":   {Version: catalog.Version{Generation: done, Etag: "f"}, Memo: new(watch.Memo)},
		"invalid UTF-8": {Version: catalog.Version{Generation: broken, Etag: "\xff"}},
		"missing":       {Version: catalog.Version{Generation: catalog.Generation{ID: "x", State: catalog.StateDeleted}}, Missing: true},
	}
}

func TestPreencodedUpdateEqualsDirectlyEncodedUpdate(t *testing.T) {
	for name, u := range allUpdates() {
		u.Etag = clean(u.Etag)
		for _, sent := range []time.Time{time.Now(), time.Unix(0, 0), time.Unix(1, 999_999_999), time.Unix(253402300799, 1)} {
			one := &easelv1.WatchGenerationResponse{
				Event: &easelv1.WatchGenerationResponse_Update{Update: updateMessage(u, ledger.Attribution{})}, EmitTime: timestamppb.New(sent),
			}
			many := &easelv1.WatchGenerationsResponse{
				Event: &easelv1.WatchGenerationsResponse_Update{Update: updateMessage(u, ledger.Attribution{})}, EmitTime: timestamppb.New(sent),
			}
			wire, err := proto.Marshal(updateResponse(encodingsOf(u).encode(u, ledger.Attribution{}), sent))
			if err != nil {
				t.Fatal(err)
			}
			for _, slow := range []proto.Message{one, many} {
				fast := slow.ProtoReflect().New().Interface()
				if err := proto.Unmarshal(wire, fast); err != nil || !proto.Equal(slow, fast) {
					t.Errorf("%s, sent %v: error %v, got\n%v\nwant\n%v", name, sent, err, fast, slow)
				}
			}
			if len(wire) != proto.Size(one) {
				t.Errorf("%s has %d bytes, want %d", name, len(wire), proto.Size(one))
			}
		}
	}
}

func TestWatchersShareOneUpdateEncoding(t *testing.T) {
	u := allUpdates()["a long text"]
	first := encodingsOf(u).encode(u, ledger.Attribution{})
	if again := encodingsOf(u).encode(u, ledger.Attribution{}); &first[0] != &again[0] {
		t.Error("the update was encoded again")
	}
}

func TestUpdateAttributionDependsOnWatcher(t *testing.T) {
	u := allUpdates()["a long text"]
	all := []ledger.Attribution{
		{}, // empty, as if the ledger were unavailable or the generation belonged to another owner
		{Owner: "red", Caller: "shop", Labels: map[string]string{"job": "1"}},
		{Owner: "red", Caller: "shop", Labels: map[string]string{"job": "2"}},
		{Owner: "blue", Caller: "shop", Labels: map[string]string{"job": "1"}},
		{},
	}
	for _, whose := range all {
		told := &easelv1.WatchGenerationResponse{}
		if err := proto.Unmarshal(encodingsOf(u).encode(u, whose), told); err != nil || !proto.Equal(told.GetUpdate(), updateMessage(u, whose)) {
			t.Errorf("want the attribution %v, got the error %v and the attribution %v", whose, err, attributionOf(told.GetUpdate().GetGeneration()))
		}
	}
}

func TestConcurrentWatchersShareAttributionQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, queries := new(encodings), atomic.Int32{}
		var watchers sync.WaitGroup
		for range 100 {
			watchers.Go(func() {
				if whose, err := e.cachedAttribution(slowAnswer(&queries)); err != nil || whose.Owner != "red" {
					t.Errorf("a watcher got %+v, %v", whose, err)
				}
			})
		}
		watchers.Wait()
		if n := queries.Load(); n != 1 {
			t.Errorf("100 watchers sent %d queries, want 1", n)
		}
		time.Sleep(attributionTTL)
		if _, err := e.cachedAttribution(slowAnswer(&queries)); err != nil || queries.Load() != 2 {
			t.Error("a watcher used an expired result")
		}
	})
}

// slowAnswer returns a function that takes a second to look up an attribution. The function counts its calls in
// queries.
func slowAnswer(queries *atomic.Int32) func() (ledger.Attribution, error) {
	return func() (ledger.Attribution, error) {
		time.Sleep(time.Second)
		queries.Add(1)
		return ledger.Attribution{Owner: "red"}, nil
	}
}

func attributionOf(g *easelv1.Generation) ledger.Attribution {
	return ledger.Attribution{Owner: g.GetOwner(), Caller: g.GetCaller(), Labels: g.GetLabels()}
}
