package events_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

const (
	oneSecret   = "whsec_ZWFzZWwgZGV2IHNpZ25zIGV2ZXJ5IGV2ZW50IHdpdGggdGhpcw=="
	otherSecret = "whsec_YW5vdGhlciBzZWNyZXQgdGhhdCBzaWducyBmcm9tIG5vdyBvbg=="
)

// post is what a receiver has got.
type post struct {
	id, kind, subject string
	at                time.Time
	header            http.Header
	body              []byte
}

// receivers are all receivers of a test, by host.
type receivers struct {
	t      *testing.T
	answer func(host string, p post) (status int, err error)

	mu  sync.Mutex
	all map[string][]post
}

func (r *receivers) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	document := struct{ ID, Type, Subject string }{}
	if err := json.Unmarshal(body, &document); err != nil {
		r.t.Error(err)
	}
	p := post{document.ID, strings.TrimPrefix(document.Type, "easel."), document.Subject, time.Now(), request.Header, body}
	status, err := r.answer(request.URL.Host, p)
	if request.Context().Err() != nil {
		return nil, request.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if status < 300 {
		r.all[request.URL.Host] = append(r.all[request.URL.Host], p)
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}, Request: request}, nil
}

func (r *receivers) got(host string) []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all[host])
}

// office is a ledger whose teams are told, in simulated time.
type office struct {
	*testing.T
	*receivers
	book    *ledger.Ledger
	teams   *events.Teams
	secrets string // the file
	sender  *events.Sender

	mu     sync.Mutex
	counts map[string]int64
}

func inOffice(t *testing.T, test func(*office)) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), nil)
		test(o)
	})
}

// watched is a database in which each question is counted, and nothing can be written while it is full.
type watched struct {
	sqlite driver.Driver
	dsn    string
	asked  atomic.Int64
	full   atomic.Bool
}

func (w *watched) Connect(context.Context) (driver.Conn, error) {
	conn, err := w.sqlite.Open(w.dsn)
	return watchedConn{conn, w}, err
}

func (w *watched) Driver() driver.Driver { return w.sqlite }

// watchedConn has no way for a question but Prepare.
type watchedConn struct {
	driver.Conn
	*watched
}

func (c watchedConn) Prepare(statement string) (driver.Stmt, error) {
	c.asked.Add(1)
	return c.Conn.Prepare(statement)
}

func (c watchedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	c.asked.Add(1)
	if c.full.Load() {
		return nil, errors.New("the disk is full")
	}
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
}

// inWatchedOffice is inOffice over a database that is watched.
func inWatchedOffice(t *testing.T, test func(*office, *watched)) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger.db")
		w := &watched{dsn: "file:" + file + "?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(5000)"}
		known, err := sql.Open("sqlite", "")
		if err != nil {
			t.Fatal(err)
		}
		w.sqlite = known.Driver()
		_ = known.Close() // it was never open
		test(newOffice(t, "sqlite:"+file, w), w)
	})
}

func newOffice(t *testing.T, url string, connector driver.Connector) *office {
	o := &office{
		T: t, teams: &events.Teams{}, secrets: filepath.Join(t.TempDir(), "secrets"), counts: map[string]int64{},
		receivers: &receivers{t: t, all: map[string][]post{}, answer: func(string, post) (int, error) { return http.StatusNoContent, nil }},
	}
	o.write(oneSecret + "\n")
	o.tell("studio", "print")
	var err error
	o.book, err = ledger.Open(t.Context(), ledger.Config{URL: url, Connector: connector, Catalog: "https://catalog.example", ResendWindow: time.Hour, RefundWindow: time.Hour, Outbox: &ledger.Outbox{
		Told: o.teams.Told, Generation: func(o ledger.Order, _ *string) string { return fmt.Sprintf(`{"generationId":%q}`, o.Generation) },
		Budget: func(ledger.Budget) string { return "{}" }, Written: func() { o.sender.Wake() },
	}})
	if err != nil {
		t.Fatal(err)
	}
	o.sender = o.newSender()
	t.Cleanup(func() {
		if err := o.book.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func (o *office) newSender() *events.Sender {
	return events.New(events.Config{Ledger: o.book, Teams: o.teams, Logger: slog.New(slog.DiscardHandler), Transport: o.receivers, Count: func(team, outcome string, n int64) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.counts[team+" "+outcome] += n
	}})
}

func (o *office) count(what string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts[what]
}

// tell tells teams, each at a receiver of its name.
func (o *office) tell(names ...string) {
	teams := map[string]events.Team{}
	for _, name := range names {
		teams[name] = events.Team{URL: "http://" + name + "/events", SecretFile: o.secrets}
	}
	o.teams.Set(teams)
}

func (o *office) write(secrets string) {
	o.Helper()
	if err := os.WriteFile(o.secrets, []byte(secrets), 0o600); err != nil {
		o.Fatal(err)
	}
}

// run lets a sender send until stop is called.
func (o *office) run(sender *events.Sender) (stop func()) {
	ctx, cancel := context.WithCancel(o.Context())
	done := make(chan struct{})
	go func() {
		sender.Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}

// order places an order.
func (o *office) order(owner, generation string, seen ...ledger.Status) {
	o.Helper()
	order, free, err := o.book.Write(o.Context(), ledger.Request{Namespace: owner, Owner: owner, Caller: owner + "-service", IdempotencyKey: generation, UpstreamKey: owner + generation, ModelID: "m", APIKey: "k", Digest: "d"})
	if err == nil && free {
		_, err = o.book.Conclude(o.Context(), order.ID, 1, lifecycle.Named, generation, nil)
	}
	for _, status := range seen {
		if err == nil {
			_, err = o.book.Observe(o.Context(), generation, ledger.Observation{Status: status})
		}
	}
	if err != nil {
		o.Fatal(err)
	}
}

func kinds(all []post) (kinds []string) {
	for _, p := range all {
		kinds = append(kinds, p.subject+" "+p.kind)
	}
	return kinds
}

func TestAnEventIsSentAtOnceAndOnce(t *testing.T) {
	inOffice(t, func(o *office) {
		defer o.run(o.sender)()
		o.order("studio", "g1", ledger.Running, ledger.Failed, ledger.Refunded)
		o.order("nobody", "g2", ledger.Succeeded)
		synctest.Wait()
		if got := kinds(o.got("studio")); !slices.Equal(got, []string{"g1 generation.failed", "g1 generation.refunded"}) {
			t.Errorf("it has got %q", got)
		}
		time.Sleep(time.Hour)
		if got := o.got("studio"); len(got) != 2 || len(o.all) != 1 || o.count("studio sent") != 2 {
			t.Errorf("an hour later it has got %q of %d receivers, %v", kinds(got), len(o.all), o.counts)
		}
	})
}

func TestWhatIsNotTakenIsSentAgainInOrder(t *testing.T) {
	inOffice(t, func(o *office) {
		tries := map[string]int{}
		o.answer = func(_ string, p post) (int, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			switch tries[p.id]++; tries[p.id] {
			case 1:
				return http.StatusInternalServerError, nil
			case 2:
				return 0, errors.New("connection refused")
			case 3:
				return http.StatusFound, nil
			}
			return http.StatusOK, nil
		}
		defer o.run(o.sender)()
		o.order("studio", "g1", ledger.Failed, ledger.Refunded)
		time.Sleep(2 * time.Minute)
		got := o.got("studio")
		if !slices.Equal(kinds(got), []string{"g1 generation.failed", "g1 generation.refunded"}) || o.count("studio failed") != 6 {
			t.Errorf("it has got %q, %v", kinds(got), o.counts)
		}
		if len(tries) != 2 {
			t.Errorf("the ids are %v", tries)
		}
	})
}

// roundTrips is a transport of one function.
type roundTrips func(*http.Request) (*http.Response, error)

func (f roundTrips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAProblemRepeatsNeitherAddressNorAnswer(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, row := range map[string]struct {
		path, location string
		err            error
		want           string
	}{
		"an address that can't be read":  {path: "/%zz?token=s3cret", want: "can't be made"},
		"a Location that can't be read":  {path: "/?token=s3cret", location: "%zz s3cret", want: "can't be read"},
		"an answer that can't be read":   {path: "/?token=s3cret", err: errors.New(`malformed HTTP response "s3cret"`), want: "can't be read"},
		"a connection that is refused":   {path: "/?token=s3cret", err: refused, want: "connection refused"},
		"a certificate of somebody else": {path: "/?token=s3cret", err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, want: "unknown authority"},
		"no answer in time":              {path: "/?token=s3cret", err: context.DeadlineExceeded, want: "within 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(o *office) {
				logged := &bytes.Buffer{}
				sender := events.New(events.Config{
					Ledger: o.book, Teams: o.teams, Logger: slog.New(slog.NewTextHandler(logged, nil)),
					Transport: roundTrips(func(r *http.Request) (*http.Response, error) {
						header := http.Header{"Location": {row.location}}
						return &http.Response{StatusCode: http.StatusFound, Body: http.NoBody, Header: header, Request: r}, row.err
					}),
				})
				o.teams.Set(map[string]events.Team{"studio": {URL: "https://hooks.example" + row.path, SecretFile: o.secrets}})
				stop := o.run(sender)
				o.order("studio", "g1", ledger.Failed)
				time.Sleep(2 * time.Second)
				stop()
				all, err := o.book.Events(o.Context(), ledger.EventFilter{}, 10)
				if err != nil || len(all) != 1 {
					o.Fatal(all, err)
				}
				if said := all[0].Problem + logged.String(); strings.Contains(said, "s3cret") || !strings.Contains(all[0].Problem, row.want) || logged.Len() == 0 {
					o.Errorf("the problem is %q, logged is %s", all[0].Problem, logged)
				}
			})
		})
	}
}

// A document is the same each time, as the receiver may have the first one.
func TestEveryAttemptSendsTheSameDocument(t *testing.T) {
	inOffice(t, func(o *office) {
		var bodies, stamps []string
		o.answer = func(_ string, p post) (int, error) {
			bodies, stamps = append(bodies, string(p.body)), append(stamps, p.header.Get("webhook-timestamp"))
			return map[bool]int{true: 200, false: 500}[len(bodies) == 3], nil
		}
		defer o.run(o.sender)()
		o.order("studio", "g1", ledger.Succeeded)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(bodies) != 3 || len(slices.Compact(bodies)) != 1 || len(slices.Compact(stamps)) != 3 {
			t.Errorf("sent are %q at %q", bodies, stamps)
		}
	})
}

func TestADeadReceiverGetsAllWithinAMinuteOfItsReturn(t *testing.T) {
	deaths := map[string]func(context.Context) (int, error){
		"refused": func(context.Context) (int, error) { return 0, errors.New("connection refused") },
		"500":     func(context.Context) (int, error) { return 500, nil },
		"silent":  func(ctx context.Context) (int, error) { time.Sleep(10 * time.Second); return 500, nil },
	}
	if testing.Short() { // the goroutines are the same: make test has all without the race detector
		delete(deaths, "refused")
		delete(deaths, "500")
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
				defer o.run(o.sender)()
				for n := range 100 {
					o.order("studio", fmt.Sprint("g", n), ledger.Failed, ledger.Refunded)
				}
				o.order("print", "p", ledger.Succeeded)
				synctest.Wait()
				if got := o.got("print"); len(got) != 1 {
					t.Errorf("beside a dead receiver another has got %q", kinds(got))
				}
				time.Sleep(time.Until(begin.Add(11 * time.Minute)))
				if got := o.got("studio"); len(got) != 200 {
					t.Errorf("a minute after its return it has got %d", len(got))
				}
				if tries > 60 {
					t.Errorf("while it was dead it was asked %d times", tries)
				}
				checkOrder(t, o.got("studio"))
			})
		})
	}
}

// checkOrder holds the order of the events of each subject, by their first arrival.
func checkOrder(t *testing.T, all []post) {
	t.Helper()
	arrived := map[string]bool{}
	for _, p := range all {
		if p.kind == "generation.refunded" && !arrived[p.subject+" generation.failed"] {
			t.Errorf("%s is refunded before it has failed", p.subject)
		}
		arrived[p.subject+" "+p.kind] = true
	}
}

func TestAtMostSixteenEventsAreOnTheirWayToATeam(t *testing.T) {
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
			o.order("studio", fmt.Sprint("g", n), ledger.Succeeded)
		}
		defer o.run(o.sender)()
		time.Sleep(5 * time.Second)
		o.order("print", "p", ledger.Succeeded)
		synctest.Wait()
		if len(o.got("print")) != 1 || len(o.got("studio")) != 0 {
			t.Errorf("beside a slow receiver another has got %q", kinds(o.got("print")))
		}
		time.Sleep(40 * time.Second)
		if got := o.got("studio"); len(got) != 50 || most != 16 {
			t.Errorf("it has got %d, at most %d at once", len(got), most)
		}
	})
}

// One event that its receiver never takes holds up nobody but its generation, and that for a day.
func TestWhatIsGivenUpReleasesTheNext(t *testing.T) {
	inOffice(t, func(o *office) {
		o.answer = func(_ string, p post) (int, error) {
			if p.subject == "g1" && p.kind == "generation.failed" {
				return http.StatusBadRequest, nil
			}
			return 200, nil
		}
		stop := o.run(o.sender)
		o.order("studio", "g1", ledger.Failed, ledger.Refunded)
		o.order("studio", "g2", ledger.Failed, ledger.Refunded)
		time.Sleep(time.Minute)
		stop() // a day of looking in vain takes a test too long
		time.Sleep(23*time.Hour + 48*time.Minute)
		stop = o.run(o.sender)
		time.Sleep(2 * time.Minute)
		stop()
		if got := kinds(o.got("studio")); !slices.Equal(got, []string{"g2 generation.failed", "g2 generation.refunded"}) {
			t.Errorf("after almost a day it has got %q", got)
		}
		time.Sleep(10 * time.Minute)
		defer o.run(o.sender)()
		time.Sleep(2 * time.Minute)
		if got := kinds(o.got("studio")); len(got) != 3 || got[2] != "g1 generation.refunded" || o.count("studio given_up") != 1 {
			t.Errorf("after a day it has got %q, %v", got, o.counts)
		}
		o.answer = func(string, post) (int, error) { return 200, nil }
		if n, err := o.book.Replay(o.Context(), ledger.EventFilter{Owner: "studio", GivenUp: true}); n != 1 || err != nil {
			t.Errorf("%d are sent again, %v", n, err)
		}
		synctest.Wait()
		if got := kinds(o.got("studio")); len(got) != 4 || got[3] != "g1 generation.failed" {
			t.Errorf("after a replay it has got %q", got)
		}
	})
}

func TestATeamThatIsToldNoMoreIsToldNothing(t *testing.T) {
	inOffice(t, func(o *office) {
		o.answer = func(string, post) (int, error) { return 500, nil }
		stop := o.run(o.sender)
		o.order("studio", "g1", ledger.Succeeded)
		synctest.Wait()
		stop()
		o.tell("print")
		o.answer = func(string, post) (int, error) { return 200, nil }
		time.Sleep(25 * time.Hour)
		defer o.run(o.sender)()
		time.Sleep(2 * time.Minute)
		if got := o.got("studio"); len(got) != 0 || o.count("studio given_up") != 1 {
			t.Errorf("it has got %q, %v", kinds(got), o.counts)
		}
	})
}

// A metric that is seen first when it has grown has no increase that an alert could see.
func TestWhatIsGivenUpIsCountedFromZero(t *testing.T) {
	for name, told := range map[string][]string{"others are told": {"print"}, "nobody is told": nil} {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(o *office) {
				o.order("studio", "g1", ledger.Succeeded)
				o.tell(told...)
				time.Sleep(25 * time.Hour)
				defer o.run(o.sender)()
				time.Sleep(50 * time.Second)
				o.mu.Lock()
				n, counted := o.counts["studio given_up"]
				o.mu.Unlock()
				if n != 0 || !counted {
					t.Errorf("in the first minute %d are counted, %v", n, counted)
				}
				time.Sleep(15 * time.Second)
				if n := o.count("studio given_up"); n != 1 {
					t.Errorf("later %d are counted", n)
				}
			})
		})
	}
}

func TestOneOfTwoProcessesSends(t *testing.T) {
	inOffice(t, func(o *office) {
		first, second := o.newSender(), o.newSender()
		stop := o.run(first)
		o.order("studio", "g1", ledger.Succeeded)
		time.Sleep(2 * time.Second)
		defer o.run(second)()
		o.order("studio", "g2", ledger.Succeeded)
		time.Sleep(2 * time.Second)
		stop() // without a word
		o.order("studio", "g3", ledger.Failed, ledger.Refunded)
		time.Sleep(ledger.ClaimTime + 2*time.Second)
		if got := kinds(o.got("studio")); !slices.Equal(got, []string{"g1 generation.succeeded", "g2 generation.succeeded", "g3 generation.failed", "g3 generation.refunded"}) {
			t.Errorf("it has got %q", got)
		}
	})
}

// An event that has arrived and was not recorded so is sent again, with its id, and not as fast as it goes.
func TestAnEventWhoseArrivalIsNotRecordedIsSentAgain(t *testing.T) {
	inWatchedOffice(t, func(o *office, w *watched) {
		var room atomic.Bool
		o.answer = func(string, post) (int, error) {
			w.full.Store(!room.Load())
			time.Sleep(10 * time.Millisecond) // or no time would pass where it goes as fast as it can
			return 200, nil
		}
		defer o.run(o.sender)()
		o.order("studio", "g1", ledger.Succeeded)
		time.Sleep(ledger.ClaimTime - time.Second) // then another process might send
		first := o.got("studio")
		if len(first) < 3 || len(first) > 6 {
			t.Errorf("while nothing can be recorded it has got %q", kinds(first))
		}
		room.Store(true)
		w.full.Store(false)
		time.Sleep(time.Hour)
		got := o.got("studio")
		if len(got) != len(first)+1 {
			t.Errorf("it was told %d times, and %d times more when that can be recorded", len(first), len(got)-len(first))
		}
		for _, p := range got {
			if p.id != got[0].id || !bytes.Equal(p.body, got[0].body) {
				t.Errorf("it has got %s after %s", p.body, got[0].body)
			}
		}
	})
}

func TestSecretsChangeWithoutAGap(t *testing.T) {
	inOffice(t, func(o *office) {
		defer o.run(o.sender)()
		signatures := func(generation string) int {
			time.Sleep(2 * time.Second)
			o.order("studio", generation, ledger.Succeeded)
			synctest.Wait()
			got := o.got("studio")
			return len(strings.Fields(got[len(got)-1].header.Get("webhook-signature")))
		}
		for n, step := range []struct {
			file string
			want int
		}{{oneSecret, 1}, {oneSecret + "\r\n" + otherSecret + "\r\n", 2}, {"broken", 2}, {otherSecret, 1}} {
			o.write(step.file)
			if got := signatures(fmt.Sprint("g", n)); got != step.want {
				t.Errorf("step %d has %d signatures", n, got)
			}
		}
	})
}

func TestWhereNobodyIsToldNothingIsAsked(t *testing.T) {
	inWatchedOffice(t, func(o *office, w *watched) {
		o.tell()
		o.order("studio", "g1", ledger.Succeeded)
		before := w.asked.Load()
		defer o.run(o.sender)()
		time.Sleep(time.Hour)
		if asked := w.asked.Load() - before; asked != 1 {
			t.Errorf("the ledger was asked %d times, and not once whether something is left", asked)
		}
		o.tell("print")
		time.Sleep(10 * time.Second)
		if asked := w.asked.Load() - before; asked < 5 {
			t.Errorf("when somebody is told it was asked %d times", asked)
		}
	})
}

func TestWhatIsLeftOfTheLastTeamIsGivenUp(t *testing.T) {
	for name, restart := range map[string]bool{"by the process that told it": false, "by a later one": true} {
		t.Run(name, func(t *testing.T) {
			inWatchedOffice(t, func(o *office, w *watched) {
				o.answer = func(string, post) (int, error) { return 500, nil }
				stop := o.run(o.sender)
				o.order("studio", "g1", ledger.Failed, ledger.Refunded)
				synctest.Wait()
				o.tell()
				sender := o.sender
				if restart {
					stop()
					sender = o.newSender()
					stop = o.run(sender)
				}
				defer func() { stop() }()
				hour := func() int64 {
					before := w.asked.Load()
					time.Sleep(time.Hour)
					return w.asked.Load() - before
				}
				if asked := hour(); asked < 60 || asked > 6*60 {
					t.Errorf("while something is left the ledger was asked %d times in an hour", asked)
				}
				o.answer = func(string, post) (int, error) { return 200, nil }
				stop() // a day of looking in vain takes a test too long
				time.Sleep(22*time.Hour + 58*time.Minute)
				stop = o.run(sender)
				time.Sleep(5 * time.Minute)
				if asked := hour(); asked > 0 {
					t.Errorf("when nothing is left the ledger was asked %d times", asked)
				}
				sum, err := o.book.Summary(o.Context())
				if err != nil || len(sum.Events) != 1 || sum.Events[0] != (ledger.EventSummary{Owner: "studio", GivenUp: 2}) || o.count("studio given_up") != 2 || len(o.got("studio")) > 0 {
					t.Errorf("left is %v, %v, %v", sum.Events, err, o.counts)
				}
			})
		})
	}
}
