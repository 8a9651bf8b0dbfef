package server

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

const (
	// waitingShare times as many calls of a class may be let in as may have their turn at once. The others wait, for callWait at most: a
	// caller that hears "later" soon can do better. Beyond all places one in spareShare is for callers with fewer than
	// fewCalls.
	waitingShare, spareShare, fewCalls = 2, 16, 2
	callWait                           = 250 * time.Millisecond
	// callerGenerations and allGenerations are how many generations the open watches of one caller, and of all, may name. A
	// generation that is polled takes about a kilobyte.
	callerGenerations, allGenerations = 20_000, 200_000
	// Calls of public methods, and pages, by the address of their connection and of all addresses.
	addressCalls, publicCalls = 100, 1000
	// Health checks of all addresses, which hold a place until they are answered.
	allChecks = 2500
	// Refusals over HTTP that have not left, the same way. All that one connection has may be refused at once.
	addressRefusals, allRefusals = 1250, 2500
	// So many requests of streams are received at a time, and of one caller; of public calls the same.
	readsAtOnce, readsOfCaller = 16, 4
	// Calls that wait for the proof of their API key: by API key all that a caller may have, so that it can come back with
	// all its watches; by address and all. Beyond all one in spareShare is for addresses with fewer than fewCalls.
	unprovedKeyCalls, unprovedAddressCalls, unprovedCalls = 1250, 2000, 2500
)

// placeBytes is the highest price of the place of a call in memory: a request of the largest size as it has come, in one
// piece and decoded; or, when that is gone, the largest answer.
const placeBytes = 6 << 20

// places are what the calls that hold one have in common: those of each caller are counted, and those of all. A call
// that finds none is refused at once.
type places struct {
	what    string // is counted
	instead string // what a caller can do that has all of its own
	each    int
	all     int
	spare   int // beyond all, for callers that hold few
	refused atomic.Uint32

	mu    sync.Mutex
	used  map[string]int // by caller; none is 0
	total int
}

func newPlaces(what, instead string, each, all int) *places {
	return &places{what: what, instead: instead, each: max(1, each), all: max(1, all), used: map[string]int{}}
}

// take takes so many.
func (p *places) take(caller string, n int) (seat, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used, all := p.used[caller], p.all
	if used < fewCalls {
		all += p.spare
	}
	switch {
	case used+n > p.each && p.instead != "":
		return seat{}, p.exceeded()
	case used+n > p.each:
		return seat{}, overload(fmt.Sprintf("one caller or address has places for %d %s here, and they are taken", p.each, p.what), p.delay())
	case p.total+n > all:
		return seat{}, overload(fmt.Sprintf("this server has places for %d %s, and they are taken", p.all, p.what), p.delay())
	}
	p.used[caller] = used + n
	p.total += n
	return seat{p, caller, n}, nil
}

// seat is what a call holds of some places.
type seat struct {
	places *places
	caller string
	n      int
}

// leave gives it back.
func (s seat) leave() {
	p := s.places
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total -= s.n
	if p.used[s.caller] -= s.n; p.used[s.caller] == 0 {
		delete(p.used, s.caller) // or the map would keep every caller that ever called
	}
}

// inUse is how many are taken.
func (p *places) inUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

func (p *places) exceeded() error {
	text := fmt.Sprintf("one caller may have %d %s open at once", p.each, p.what)
	failure := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "caller", Description: text}}}
	return service.Fail(easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED, text+": "+p.instead, failure, retryInfo(p.delay()))
}

// delay is when the next refused caller should try again: after 1 s to 2 s, and far from the delays just before, so that
// callers who are refused together do not come back together.
func (p *places) delay() time.Duration {
	const golden = 0x9E3779B9 // 2^32 over the golden ratio
	return time.Second + time.Duration(p.refused.Add(1)*golden)*time.Second>>32
}

// overload refuses what exceeds a limit for all callers together.
func overload(text string, after time.Duration) error {
	return service.Fail(easelv1.ErrorReason_OVERLOADED, text+": try again a little later", retryInfo(after))
}

func retryInfo(after time.Duration) protoadapt.MessageV1 {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(after)}
}

// host is whom an address counts for: the address without its port, and of IPv6 the network of a site.
func host(addr string) string {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return addr
	}
	if ip := at.Addr().Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	site, _ := at.Addr().Prefix(64) // an IPv6 address has one
	return site.String()
}
