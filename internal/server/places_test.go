package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/gate"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// reasonOf is why no place was given.
func reasonOf(err error) easelv1.ErrorReason { return service.Reason(service.Status(err)) }

func newTestDoor(calls int) *door {
	return newDoor(Config{Service: nobody{}, Limits: Limits{Calls: calls}}, rules{}, nil)
}

// nobody is a service that nobody calls.
type nobody struct{ Service }

func TestTheLastTurnsAreKeptForWhatIsMissedMost(t *testing.T) {
	turns := newTestDoor(16).turns
	callers := 0
	try := func(class gate.Class) error {
		callers++
		_, err := turns.Try(gate.Request{Owner: fmt.Sprint("caller ", callers%2), Class: class})
		return err
	}
	take := func(n int, class gate.Class) {
		t.Helper()
		for range n {
			if err := try(class); err != nil {
				t.Fatal(err)
			}
		}
		if err := try(class); err == nil {
			t.Errorf("class %v has one more", class)
		}
	}
	take(12, list)
	take(3, read)
	take(1, order)
}

func TestOneCallersCallsKeepNoOtherOut(t *testing.T) { // A8
	d := newTestDoor(48)
	calls := d.calls[order]
	var held []seat
	for caller, may := range map[string]int{"greedy": 64, "another": 32} {
		for range may {
			one, err := calls.take(caller, 1)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, one)
		}
	}
	for range fewCalls {
		if _, err := calls.take("modest", 1); err != nil {
			t.Error("a third one's call is refused: ", err)
		}
	}
	for _, caller := range []string{"greedy", "another", "modest"} {
		if _, err := calls.take(caller, 1); reasonOf(err) != easelv1.ErrorReason_OVERLOADED {
			t.Errorf("the spare places are anybody's: %v", err)
		}
	}
	for _, one := range held {
		one.leave()
	}
	if calls.inUse() != fewCalls || len(calls.used) != 1 {
		t.Errorf("%d places are taken, by %v", calls.inUse(), calls.used)
	}
}

func TestOneCallerHasTwoThirdsOfTheTurnsAndNoMore(t *testing.T) { // A8
	for class := range gate.Classes {
		turns := newTestDoor(48).turns
		had := map[string]int{}
		for range 48 {
			for _, caller := range []string{"greedy", "modest"} {
				for caller == "greedy" || had[caller] < 4 {
					if _, err := turns.Try(gate.Request{Owner: caller, Class: class}); err != nil {
						break
					}
					had[caller]++
				}
			}
		}
		if had["greedy"] != 32 || had["modest"] != 4 {
			t.Errorf("of class %v they have had %v", class, had)
		}
	}
}

func TestACallWaitsForItsTurnAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestDoor(1)
		enter := func() (*call, error) {
			c := &call{door: d, method: easelv1.GenerationService_GetGeneration_FullMethodName}
			return c, c.admit(t.Context())
		}
		first, err := enter()
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(callWait/2, first.stand)
		began := time.Now()
		if _, err := enter(); err != nil || time.Since(began) != callWait/2 {
			t.Errorf("the second is answered %v after %v", err, time.Since(began))
		}
		if _, err := enter(); reasonOf(err) != easelv1.ErrorReason_OVERLOADED || time.Since(began) > callWait*3/2 {
			t.Errorf("the third is answered %v after %v", err, time.Since(began))
		}
	})
}

func TestEveryMethodHasAPlaceByItsKind(t *testing.T) {
	var streams, calls int
	for method := range FullMethods() {
		if longLived[method] {
			streams++
		}
		if _, ok := classOf[method]; ok {
			calls++
		}
	}
	if streams != len(longLived) || calls != len(classOf) {
		t.Error("a method is named that the contract does not have")
	}
	for _, service := range service.Services() {
		for n := range service.Methods().Len() {
			m := service.Methods().Get(n)
			name := "/" + string(service.FullName()) + "/" + string(m.Name())
			if m.IsStreamingServer() && !longLived[name] {
				t.Errorf("%s is a stream and not counted as one", name)
			}
			if strings.HasPrefix(string(m.Name()), "List") && classOf[name] != list {
				t.Errorf("%s does not count as a list", name)
			}
		}
	}
}

func TestNoCallerTakesTheStreamsOfAnotherAndAllTogetherAreBounded(t *testing.T) { // L5
	p := newPlaces("streams", "end one", 2, 3)
	const counted, tooMany, full = easelv1.ErrorReason_ERROR_REASON_UNSPECIFIED, easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED, easelv1.ErrorReason_OVERLOADED
	for n, step := range []struct {
		caller string
		want   easelv1.ErrorReason
	}{
		{"a", counted}, {"a", counted}, {"a", tooMany}, {"b", counted}, {"b", full}, {"c", full},
	} {
		if _, err := p.take(step.caller, 1); reasonOf(err) != step.want {
			t.Errorf("stream %d, of %s: %v, want %v", n+1, step.caller, err, step.want)
		}
	}
}

func TestAnAddressCountsForItsHostOrItsSite(t *testing.T) {
	for addr, want := range map[string]string{
		"10.1.2.3:4567": "10.1.2.3", "[::ffff:10.1.2.3]:80": "10.1.2.3", "bufconn": "bufconn",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
	} {
		if got := host(addr); got != want {
			t.Errorf("%s counts for %s, want %s", addr, got, want)
		}
	}
}

func TestThoseWhoAreRefusedTogetherDoNotComeBackTogether(t *testing.T) {
	p := newPlaces("calls", "", 1, 1)
	seen := map[time.Duration]int{}
	for range 1000 {
		seen[p.delay().Truncate(100*time.Millisecond)]++
	}
	for slot := time.Second; slot < 2*time.Second; slot += 100 * time.Millisecond {
		if seen[slot] < 90 || seen[slot] > 110 {
			t.Errorf("%d of 1,000 come back within 100 ms of %v", seen[slot], slot)
		}
	}
}

// BenchmarkAPlaceOfACall is what every call pays for its place and its turn.
func BenchmarkAPlaceOfACall(b *testing.B) {
	d := newTestDoor(128)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := &call{door: d, method: easelv1.GenerationService_GetGeneration_FullMethodName}
			if err := c.takePlace(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := c.admit(b.Context()); err != nil {
				b.Fatal(err)
			}
			c.stand()
		}
	})
}
