package events

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/reload"
)

const (
	lookEvery   = time.Second      // how often the ledger is asked what is due; what this process writes wakes it
	sendTimeout = 10 * time.Second // of one attempt
	stopTimeout = 2 * time.Second  // of the attempts that are under way at the end
	tidyEvery   = 10 * time.Minute
	giveUpEvery = time.Minute // for those who are told no more
	mostAnswer  = 64 << 10    // bytes of an answer that are read, to use the connection again
)

// What comes of an attempt to send an event.
const (
	OutcomeSent    = "sent"
	OutcomeFailed  = "failed"
	OutcomeGivenUp = "given_up"
)

// Config has the dependencies of a [Sender].
type Config struct {
	Ledger *ledger.Ledger // required
	Teams  *Teams         // required
	Logger *slog.Logger   // required
	// Transport reaches the receivers. Nil is one over TCP and TLS.
	Transport http.RoundTripper
	// Count counts what has come of the events of a team. It may be called with 0, and be nil.
	Count func(team, outcome string, events int64)
}

// Sender sends the events of the ledger. A team is told by one process at a time, of those that know where.
type Sender struct {
	cfg    Config
	client *http.Client
	holder string
	wake   chan struct{}
	work   sync.WaitGroup

	tidyAt    time.Time       // when is looked again at who is told no more
	abandoned map[string]bool // who was found there

	mu        sync.Mutex
	receivers map[string]*receiver
	secrets   map[string]*reload.Value[Secrets]
}

// New makes a Sender. It asks nobody.
func New(cfg Config) *Sender {
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: sendTimeout, MaxResponseHeaderBytes: mostAnswer,
			MaxIdleConnsPerHost: mostInFlight, IdleConnTimeout: time.Minute,
		}
	}
	if cfg.Count == nil {
		cfg.Count = func(string, string, int64) {}
	}
	return &Sender{
		cfg: cfg, holder: rand.Text(), wake: make(chan struct{}, 1), abandoned: map[string]bool{},
		client:    &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		receivers: map[string]*receiver{}, secrets: map[string]*reload.Value[Secrets]{},
	}
}

// again has the sender look at once at what is due. It does not wait.
func (s *Sender) again() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sends what is due until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer s.work.Wait()
	defer func() { time.AfterFunc(stopTimeout, stop) }()
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.cfg.Ledger.Written():
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		if told := s.cfg.Ledger.Subscribers(); len(told) > 0 {
			s.look(ctx, sending, told)
		}
		s.tidy(ctx, time.Now())
	}
}

// look sends what is due to those who are told. While the ledger is away nothing is sent.
func (s *Sender) look(ctx, sending context.Context, told []string) {
	owners, _ := s.cfg.Ledger.DueEventOwners(ctx, told)
	for _, owner := range owners {
		if team, ok := s.cfg.Teams.Get(owner); ok {
			s.serve(ctx, sending, owner, team)
		}
	}
}

// claim reports whether this process tells a team, and lets it where nobody does. While the ledger is away it does for as
// long as it was to.
func (s *Sender) claim(ctx context.Context, owner string) bool {
	now, until := time.Now(), s.until(owner)
	if now.Before(until.Add(-ledger.ClaimTime / 2)) {
		return true
	}
	taken, err := s.cfg.Ledger.TakeDuty(ctx, ledger.TellingDuty(owner), s.holder, ledger.ClaimTime)
	if taken {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.receivers[owner].until = now.Add(ledger.ClaimTime)
	}
	return taken || err != nil && now.Before(until)
}

// until is how long this process tells a team.
func (s *Sender) until(owner string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.receivers[owner].until
}

// tidy gives up, once in a while, what nobody can send any more.
func (s *Sender) tidy(ctx context.Context, now time.Time) {
	if now.Before(s.tidyAt) {
		return
	}
	s.tidyAt = now.Add(tidyEvery)
	owners, _ := s.cfg.Ledger.AbandonedEventOwners(ctx)
	for _, owner := range owners {
		// The count begins at 0, and grows the next time: a metric has to be seen before that.
		if s.cfg.Count(owner, OutcomeGivenUp, 0); s.abandoned[owner] {
			given, _ := s.cfg.Ledger.GiveUp(ctx, owner) // the next time continues
			s.gaveUp(ctx, owner, int64(given))
		}
		s.abandoned[owner], s.tidyAt = true, now.Add(giveUpEvery)
	}
}

// serve sends as much to a team as its receiver takes.
func (s *Sender) serve(ctx, sending context.Context, owner string, team Team) {
	room, most := s.room(owner)
	if room == 0 || !s.claim(ctx, owner) {
		return
	}
	var due []ledger.Event
	due, err := s.cfg.Ledger.DueEvents(ctx, owner, most)
	if err != nil {
		return
	}
	for _, e := range due {
		if room > 0 && s.begin(e) {
			room--
			s.work.Go(func() { s.send(sending, team, e) })
		}
	}
}

// room is how many events may leave to a team now, and how many due ones to look at: some are on their way.
func (s *Sender) room(owner string) (room, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.receivers[owner]
	if r == nil {
		r = &receiver{inFlight: map[string]bool{}}
		s.receivers[owner] = r
	}
	room = r.room(time.Now())
	return room, room + len(r.inFlight)
}

// begin notes that an event leaves, unless it is on its way or was when the ledger was asked, or the team is no longer
// this process's to tell.
func (s *Sender) begin(e ledger.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.receivers[e.Owner]
	if _, known := r.inFlight[e.ID]; known || !time.Now().Before(r.until) {
		return false
	}
	r.inFlight[e.ID] = true
	return true
}

// send makes one attempt, and records what has come of it. A team whose receiver this process does not reach is given
// back: another process may have a way.
func (s *Sender) send(ctx context.Context, team Team, e ledger.Event) {
	ctx, span := otel.Tracer("github.com/easel-grpc/easel/internal/events").Start(ctx, "send event", trace.WithNewRoot(),
		trace.WithAttributes(attribute.String("easel.event.type", e.Type)))
	defer span.End()
	err := s.post(ctx, team, e)
	ok := ctx.Err() == nil && s.record(ctx, e, err)
	s.mu.Lock()
	left := s.receivers[e.Owner].done(e.ID, ok, err == nil, time.Now())
	s.mu.Unlock()
	if left {
		_ = s.cfg.Ledger.GiveBackDuty(ctx, ledger.TellingDuty(e.Owner), s.holder)
	}
	s.again()
}

// record records what has come of an attempt, and reports whether another may follow at once. An event whose arrival the
// ledger does not take is sent again.
func (s *Sender) record(ctx context.Context, e ledger.Event, failed error) bool {
	s.log(ctx, e, failed)
	if failed == nil {
		s.cfg.Count(e.Owner, OutcomeSent, 1)
		return s.cfg.Ledger.Sent(ctx, e.ID) == nil
	}
	s.cfg.Count(e.Owner, OutcomeFailed, 1)
	if givenUp, _ := s.cfg.Ledger.NotSent(ctx, e.ID, failed.Error()); givenUp {
		s.gaveUp(ctx, e.Owner, 1)
	}
	return false
}

// log logs that the receiver of a team begins to fail, and that it takes events again. Other attempts are for debugging.
func (s *Sender) log(ctx context.Context, e ledger.Event, failed error) {
	s.mu.Lock()
	fails, again := s.receivers[e.Owner].turns(failed == nil, e.Attempts > 0)
	s.mu.Unlock()
	about := []any{"team", e.Owner, "event", e.ID, "type", e.Type, "subject", e.Subject}
	switch {
	case fails:
		s.cfg.Logger.WarnContext(ctx, "an event was not taken: it is sent again until its receiver takes it", append(about, "error", failed)...)
	case again:
		s.cfg.Logger.InfoContext(ctx, "the receiver of a team takes events again", about...)
	default:
		s.cfg.Logger.DebugContext(ctx, "an event was sent", append(about, "attempt", e.Attempts+1, "error", failed)...)
	}
}

// gaveUp counts and logs events that were given up.
func (s *Sender) gaveUp(ctx context.Context, owner string, given int64) {
	if given > 0 {
		s.cfg.Count(owner, OutcomeGivenUp, given)
		s.cfg.Logger.ErrorContext(ctx, "events were given up: easel events replay sends them again", "team", owner, "events", given)
	}
}

// Errors of a receiver that repeat neither its address nor its answer.
var (
	errRequest    = errors.New("the request to the receiver can't be made")
	errLate       = fmt.Errorf("the receiver has not answered within %v", sendTimeout)
	errUnreadable = errors.New("the receiver is not reached, or its answer can't be read")
)

// post sends an event once. Its errors never repeat the receiver's address or its answer.
func (s *Sender) post(ctx context.Context, team Team, e ledger.Event) error {
	secrets, err := s.secretsOf(team)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, err := request(ctx, team.URL, secrets, e, time.Now())
	if err != nil {
		return errRequest
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return unreachable(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("the receiver has answered %d", answer.StatusCode)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, mostAnswer) // the status says it all
	return nil
}

// unreachable is the error of a receiver that does not answer. Of the others it repeats only what has neither the
// address nor the answer in it: each may have a secret in it.
func unreachable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errLate
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("the receiver is not reached: %w", failed)
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the receiver is not reached: %w", untrusted)
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return errLate
	}
	return errUnreadable
}

// secretsOf gives the secrets of a team. Their file is read again when it changes.
func (s *Sender) secretsOf(team Team) (Secrets, error) {
	s.mu.Lock()
	known := s.secrets[team.SecretFile]
	s.mu.Unlock()
	if known != nil {
		return known.Get(), nil
	}
	known, err := reload.Open("secret of events", s.cfg.Logger, ParseSecrets, team.SecretFile)
	if err != nil {
		return nil, err
	}
	secrets := known.Get()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[team.SecretFile] = known
	return secrets, nil
}

// CheckSecrets says what is wrong with a file of secrets.
func CheckSecrets(file string) error {
	_, err := reload.Open("secret of events", slog.New(slog.DiscardHandler), ParseSecrets, file)
	return err
}
