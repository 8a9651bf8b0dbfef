package events_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestEventIsSentImmediatelyAndOnlyOnce(t *testing.T) {
	inOffice(t, func(o *office) {
		defer o.runSender(o.sender)()
		o.placeOrder("studio", "g1", lifecycle.Running, lifecycle.Failed, lifecycle.Refunded)
		o.placeOrder("nobody", "g2", lifecycle.Succeeded)
		o.awaitJobs()
		if got := kinds(o.got("studio")); !slices.Equal(got, []string{"g1 generation.failed", "g1 generation.refunded"}) {
			t.Errorf("the receiver got %q", got)
		}
		time.Sleep(time.Hour)
		if got := o.got("studio"); len(got) != 2 || len(o.all) != 1 || o.count("studio sent") != 2 {
			t.Errorf("an hour after the delivery the receiver has %q; %d receivers got events; counts: %v", kinds(got), len(o.all), o.counts)
		}
	})
}

func TestReceiverFailureAndRecoveryAreEachLoggedOnce(t *testing.T) {
	inOffice(t, func(o *office) {
		var down atomic.Bool
		o.answer = func(string, post) (int, error) {
			if down.Load() {
				return 0, errors.New("connection refused")
			}
			return http.StatusOK, nil
		}
		defer o.runSender(o.sender)()
		for n := range 2 { // n is the number of earlier outages
			down.Store(true)
			for i := range 12 {
				o.placeOrder("studio", fmt.Sprintf("g%d-%d", n, i), lifecycle.Failed)
				time.Sleep(10 * time.Second)
			}
			if failed, back := o.countLogged("event delivery failed"), o.countLogged("event delivery recovered"); failed != n+1 || back != n {
				t.Errorf("in outage %d the log reports %d failures and %d recoveries", n, failed, back)
			}
			down.Store(false)
			time.Sleep(time.Minute)
			if failed, back := o.countLogged("event delivery failed"), o.countLogged("event delivery recovered"); failed != n+1 || back != n+1 {
				t.Errorf("after outage %d the log reports %d failures and %d recoveries", n, failed, back)
			}
		}
		if got := len(o.got("studio")); got != 24 || o.count("studio failed") < 16 {
			t.Errorf("the receiver got %d events, %v", got, o.counts)
		}
	})
}

// Each attempt must send the same document, because an earlier attempt may have reached the receiver.
func TestFailedDeliveriesAreRetriedInOrder(t *testing.T) {
	inOffice(t, func(o *office) {
		bodies, stamps := map[string][]string{}, map[string][]string{}
		o.answer = func(_ string, p post) (int, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			bodies[p.id], stamps[p.id] = append(bodies[p.id], string(p.body)), append(stamps[p.id], p.header.Get("webhook-timestamp"))
			switch len(bodies[p.id]) {
			case 1:
				return http.StatusInternalServerError, nil
			case 2:
				return 0, errors.New("connection refused")
			case 3:
				return http.StatusFound, nil
			}
			return http.StatusOK, nil
		}
		defer o.runSender(o.sender)()
		o.placeOrder("studio", "g1", lifecycle.Failed, lifecycle.Refunded)
		time.Sleep(2 * time.Minute)
		got := o.got("studio")
		if !slices.Equal(kinds(got), []string{"g1 generation.failed", "g1 generation.refunded"}) || o.count("studio failed") != 6 {
			t.Errorf("the receiver got %q, %v", kinds(got), o.counts)
		}
		if len(bodies) != 2 {
			t.Errorf("the sent events are %v", bodies)
		}
		for id, sent := range bodies {
			if len(slices.Compact(sent)) != 1 || len(slices.Compact(stamps[id])) != 4 {
				t.Errorf("sent %q with the timestamps %q", sent, stamps[id])
			}
		}
	})
}

// roundTrips is a transport implemented by a function.
type roundTrips func(*http.Request) (*http.Response, error)

func (f roundTrips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestDeliveryErrorRevealsNeitherURLNorResponse(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, row := range map[string]struct {
		path, location string
		err            error
		want           string
	}{
		"an invalid address":         {path: "/%zz?token=s3cret", want: "can't be created"},
		"an invalid Location header": {path: "/?token=s3cret", location: "%zz s3cret", want: "can't be read"},
		"a malformed response":       {path: "/?token=s3cret", err: errors.New(`malformed HTTP response "s3cret"`), want: "can't be read"},
		"a refused connection":       {path: "/?token=s3cret", err: refused, want: "connection refused"},
		"an untrusted certificate":   {path: "/?token=s3cret", err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, want: "unknown authority"},
		"no response in time":        {path: "/?token=s3cret", err: context.DeadlineExceeded, want: "within 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(o *office) {
				sender := o.newSender(roundTrips(func(r *http.Request) (*http.Response, error) {
					header := http.Header{"Location": {row.location}}
					return &http.Response{StatusCode: http.StatusFound, Body: http.NoBody, Header: header, Request: r}, row.err
				}))
				o.teams.Set(map[string]events.Team{"studio": {URL: "https://hooks.example" + row.path, SecretFile: o.secrets}})
				stop := o.runSender(sender)
				o.placeOrder("studio", "g1", lifecycle.Failed)
				time.Sleep(2 * time.Second)
				stop()
				all, err := o.ledger.Events(o.Context(), ledger.EventFilter{}, 10)
				if err != nil || len(all) != 1 {
					o.Fatal(all, err)
				}
				if said := all[0].Problem + o.log.String(); strings.Contains(said, "s3cret") || !strings.Contains(all[0].Problem, row.want) || o.countLogged("event delivery failed") != 1 {
					o.Errorf("the problem is %q, and the log is %s", all[0].Problem, o.log)
				}
			})
		})
	}
}

func TestRecoveredReceiverGetsAllEventsWithinOneMinute(t *testing.T) {
	deaths := map[string]func(context.Context) (int, error){
		"refused": func(context.Context) (int, error) { return 0, errors.New("connection refused") },
		"500":     func(context.Context) (int, error) { return 500, nil },
		"silent":  func(ctx context.Context) (int, error) { time.Sleep(10 * time.Second); return 500, nil },
	}
	for name, death := range deaths {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(o *office) {
				begin, tries := time.Now(), 0
				o.answer = func(host string, _ post) (int, error) {
					if host == "studio" && time.Since(begin) < 10*time.Minute {
						o.mu.Lock()
						tries++
						o.mu.Unlock()
						return death(o.Context())
					}
					return 200, nil
				}
				defer o.runSender(o.sender)()
				for n := range 100 {
					o.placeOrder("studio", fmt.Sprint("g", n), lifecycle.Failed, lifecycle.Refunded)
				}
				o.placeOrder("print", "p", lifecycle.Succeeded)
				o.awaitJobs()
				if got := o.got("print"); len(got) != 1 {
					t.Errorf("while the receiver of studio was down, the receiver of print got %q", kinds(got))
				}
				time.Sleep(time.Until(begin.Add(11 * time.Minute)))
				if got := o.got("studio"); len(got) != 200 {
					t.Errorf("a minute after the outage the receiver has %d events, want 200", len(got))
				}
				if tries > 60 {
					t.Errorf("while the receiver was down it got %d requests", tries)
				}
				checkOrder(t, o.got("studio"))
			})
		})
	}
}

// The retry delay of an event is a fraction of its delivery job's age. A new event is therefore retried soon, even
// after a long outage.
func TestRetryDelayOfNewEventIsShortAfterOutage(t *testing.T) {
	inOffice(t, func(o *office) {
		var dead atomic.Bool
		o.answer = func(string, post) (int, error) { return map[bool]int{true: 500, false: 200}[dead.Load()], nil }
		defer o.runSender(o.sender)()
		dead.Store(true)
		o.placeOrder("studio", "g1", lifecycle.Succeeded)
		time.Sleep(time.Hour)
		dead.Store(false)
		time.Sleep(4 * time.Minute) // longer than the retry delay of the first event, which is 3 minutes: a twentieth of the event's age of one hour
		dead.Store(true)
		o.placeOrder("studio", "g2", lifecycle.Succeeded)
		o.awaitJobs()
		dead.Store(false)
		time.Sleep(5 * time.Second)
		if got := kinds(o.got("studio")); len(got) != 2 {
			t.Errorf("5 seconds after one failure the receiver got %q", got)
		}
	})
}

// checkOrder checks that no refund event arrived before the first delivery of the failure event about the same
// generation.
func checkOrder(t *testing.T, all []post) {
	t.Helper()
	arrived := map[string]bool{}
	for _, p := range all {
		if p.kind == "generation.refunded" && !arrived[p.subject+" generation.failed"] {
			t.Errorf("the refund of %s arrived before its failure", p.subject)
		}
		arrived[p.subject+" "+p.kind] = true
	}
}

func TestAtMostSixteenEventsAreInFlightToATeam(t *testing.T) {
	inOffice(t, func(o *office) {
		now, most := map[string]int{}, 0
		o.answer = func(host string, _ post) (int, error) {
			o.mu.Lock()
			now[host]++
			most = max(most, now[host])
			o.mu.Unlock()
			if host == "studio" {
				time.Sleep(9 * time.Second)
			}
			o.mu.Lock()
			now[host]--
			o.mu.Unlock()
			return 200, nil
		}
		for n := range 50 {
			o.placeOrder("studio", fmt.Sprint("g", n), lifecycle.Succeeded)
		}
		defer o.runSender(o.sender)()
		time.Sleep(5 * time.Second)
		o.placeOrder("print", "p", lifecycle.Succeeded)
		o.awaitJobs()
		if len(o.got("print")) != 1 || len(o.got("studio")) != 0 {
			t.Errorf("while the receiver of studio was slow, the receiver of print got %q", kinds(o.got("print")))
		}
		time.Sleep(40 * time.Second)
		if got := o.got("studio"); len(got) != 50 || most != 16 {
			t.Errorf("the receiver got %d events, at most %d at the same time; want 50 and 16", len(got), most)
		}
	})
}

// If a delivery was not recorded, the event is sent again, with the same ID, when the lease of the delivery has
// expired.
func TestUnrecordedDeliveryIsRepeated(t *testing.T) {
	inOffice(t, func(o *office) {
		jobs := func(statement string) { // executes the statement twice: with UPDATE in place of CHANGE, and then with DELETE
			for _, change := range []string{"UPDATE", "DELETE"} {
				proctest.Exec(o, o.url, strings.ReplaceAll(statement, "CHANGE", change))
			}
		}
		var full sync.Once
		o.answer = func(string, post) (int, error) {
			full.Do(func() {
				jobs("CREATE TRIGGER full_CHANGE BEFORE CHANGE ON jobs BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
			})
			return 200, nil
		}
		defer o.runSender(o.sender)()
		o.placeOrder("studio", "g1", lifecycle.Succeeded)
		time.Sleep(ledger.JobLease - time.Second)
		if got := o.got("studio"); len(got) != 1 {
			t.Errorf("before the lease expired the receiver got %q", kinds(got))
		}
		jobs("DROP TRIGGER full_CHANGE")
		time.Sleep(time.Hour)
		got := o.got("studio")
		if len(got) != 2 || got[1].id != got[0].id || !bytes.Equal(got[1].body, got[0].body) {
			t.Errorf("after the lease expired the receiver got %q", kinds(got))
		}
	})
}

func TestSecretRotationKeepsEventsSigned(t *testing.T) {
	inOffice(t, func(o *office) {
		defer o.runSender(o.sender)()
		signatures := func(generation string) int {
			time.Sleep(2 * time.Second)
			o.placeOrder("studio", generation, lifecycle.Succeeded)
			o.awaitJobs()
			got := o.got("studio")
			return len(strings.Fields(got[len(got)-1].header.Get("webhook-signature")))
		}
		for n, step := range []struct {
			file string
			want int
		}{{oneSecret, 1}, {oneSecret + "\r\n" + otherSecret + "\r\n", 2}, {"broken", 2}, {otherSecret, 1}} {
			proctest.Write(o, o.secrets, step.file)
			if got := signatures(fmt.Sprint("g", n)); got != step.want {
				t.Errorf("step %d has %d signatures", n, got)
			}
		}
	})
}
