package events

import (
	"context"
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

	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/reload"
)

const (
	sendTimeout     = 10 * time.Second // timeout of one attempt to deliver an event
	maxDeliveries   = 1024             // maximum number of concurrent deliveries in a process; at most maxInFlight of them go to the same receiver
	abandonInterval = time.Minute
	maxAnswerBytes  = 64 << 10 // maximum size of a response header in bytes, and maximum number of bytes that are read from a response body before the connection is reused

	// The delay before a retry is the age of the delivery job divided by retryShare. It is at least minRetry and at most
	// maxRetry.
	retryShare         = 20
	minRetry, maxRetry = time.Second, 10 * time.Minute
)

// Outcomes of an event's delivery, for [Config.Count].
const (
	OutcomeSent    = "sent"
	OutcomeFailed  = "failed"
	OutcomeGivenUp = "given_up"
)

// Config is the configuration of a [Sender].
type Config struct {
	Ledger *ledger.Ledger // required
	Teams  *Teams         // required
	Logger *slog.Logger   // required
	// Transport sends requests to receivers. Nil means an [http.Transport] with the proxy settings from the environment.
	Transport http.RoundTripper
	// Count adds a number of events, which may be 0, to a team's counter for the given outcome. Count may be nil.
	Count func(team, outcome string, events int64)
}

// Sender delivers the ledger's events to their receivers. Each delivery is a job. A process runs a delivery job only if
// the team has a receiver in the process's configuration.
type Sender struct {
	cfg    Config
	client *http.Client

	mu        sync.Mutex
	receivers map[string]*receiver // receivers by owner
	secrets   map[string]*reload.Value[Secrets]
}

// New creates a Sender. It starts no goroutines. Events are delivered only if a [jobs.Jobs] runs the job kinds that
// [Sender.Kinds] returns.
func New(cfg Config) *Sender {
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: sendTimeout, MaxResponseHeaderBytes: maxAnswerBytes,
			MaxIdleConnsPerHost: maxInFlight, IdleConnTimeout: time.Minute,
		}
	}
	if cfg.Count == nil {
		cfg.Count = func(string, string, int64) {}
	}
	return &Sender{
		cfg:       cfg,
		client:    &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		receivers: map[string]*receiver{}, secrets: map[string]*reload.Value[Secrets]{},
	}
}

// Kinds returns the two kinds of jobs that s runs. Jobs of the first kind deliver one event each. The second kind has one
// periodic job. It requests the delivery of events that were kept because their team had no receiver, and abandons events that
// are too old.
func (s *Sender) Kinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: ledger.DeliverJob, Slots: maxDeliveries, Room: s.maxInFlight, RetryShare: retryShare, MinRetry: minRetry, MaxRetry: maxRetry, Do: s.deliverEvent},
		{Name: "abandon", Interval: abandonInterval, Slots: 1, MinRetry: abandonInterval, MaxRetry: abandonInterval, Do: s.abandonEvents},
	}
}

// maxInFlight returns the maximum number of events that may be in flight to a team's receiver. It is zero if the team has no
// receiver in this process's configuration.
func (s *Sender) maxInFlight(owner string) int {
	if _, ok := s.cfg.Teams.Get(owner); !ok {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.receiver(owner).maxInFlight(time.Now())
}

// receiver returns the state of an owner's receiver. It creates the state if necessary. The caller must hold mu.
func (s *Sender) receiver(owner string) *receiver {
	r := s.receivers[owner]
	if r == nil {
		r = &receiver{}
		s.receivers[owner] = r
	}
	return r
}

// deliverEvent runs a job that delivers an event. It does nothing if the event was erased in the meantime.
func (s *Sender) deliverEvent(ctx context.Context, job ledger.Job) (ledger.Outcome, error) {
	e, found, err := s.cfg.Ledger.Event(ctx, job.Ref)
	if err != nil || !found {
		return ledger.Outcome{}, err
	}
	ctx, span := otel.Tracer("github.com/easel-grpc/easel/internal/events").Start(ctx, "send event", trace.WithNewRoot(),
		trace.WithAttributes(attribute.String("easel.event.type", e.Type)))
	defer span.End()
	err = s.postEvent(ctx, e)
	if ctx.Err() != nil { // the process is stopping, or it has lost the job's lease
		return ledger.Outcome{}, ctx.Err()
	}
	if s.recordDelivery(ctx, e, err); err != nil {
		return ledger.Outcome{}, err
	}
	return ledger.Outcome{Change: ledger.Delivered(e.ID, e.Attempts+1)}, nil
}

// recordDelivery updates the state of the receiver and the counters after an attempt. It logs when a receiver starts to fail,
// and when it recovers.
func (s *Sender) recordDelivery(ctx context.Context, e ledger.Event, failed error) {
	s.mu.Lock()
	fails, recovers := s.receiver(e.Owner).recordAttempt(failed == nil, e.Attempts > 0, time.Now())
	s.mu.Unlock()
	s.cfg.Count(e.Owner, map[bool]string{true: OutcomeSent, false: OutcomeFailed}[failed == nil], 1)
	switch {
	case fails:
		s.cfg.Logger.WarnContext(ctx, "event delivery failed; retrying", "team", e.Owner, "event", e.ID, "type", e.Type, "subject", e.Subject, "error", failed)
	case recovers:
		s.cfg.Logger.InfoContext(ctx, "event delivery recovered", "team", e.Owner)
	}
}

// abandonEvents runs a periodic job. The job abandons events that are too old, and requests the delivery of events that had no
// receiver (see deliverKept). It also adds zero to the abandoned count of each owner that has delivery jobs, so that the
// metric exists before the first event is abandoned.
func (s *Sender) abandonEvents(ctx context.Context, _ ledger.Job) (ledger.Outcome, error) {
	err := s.deliverKept(ctx)
	owners, failed := s.cfg.Ledger.OwnersOfJobs(ctx, ledger.DeliverJob)
	err = errors.Join(err, failed)
	for _, owner := range owners {
		s.cfg.Count(owner, OutcomeGivenUp, 0)
		given, failed := s.cfg.Ledger.GiveUp(ctx, owner)
		if err = errors.Join(err, failed); given > 0 {
			s.cfg.Count(owner, OutcomeGivenUp, int64(given))
			s.cfg.Logger.ErrorContext(ctx, "events abandoned", "team", owner, "events", given, "hint", "easel events replay sends them again")
		}
	}
	return ledger.Outcome{}, err
}

// deliverKept requests the delivery of kept events. An event is kept if the process that wrote it had no receiver for the
// event's owner, for example because its callers file was older.
func (s *Sender) deliverKept(ctx context.Context) (err error) {
	for owner, team := range s.cfg.Teams.teams() {
		if team.URL != "" {
			err = errors.Join(err, s.cfg.Ledger.DeliverKept(ctx, owner))
		}
	}
	return err
}

// Errors from a delivery attempt. They contain neither the receiver's URL nor its response.
var (
	errNoReceiver = errors.New("team has no receiver")
	errRequest    = errors.New("request to the receiver can't be created")
	errLate       = fmt.Errorf("receiver did not respond within %v", sendTimeout)
	errUnreadable = errors.New("receiver unreachable, or its response can't be read")
)

// postEvent sends an event to its receiver once. Its errors contain neither the receiver's URL nor the receiver's response.
func (s *Sender) postEvent(ctx context.Context, e ledger.Event) error {
	team, ok := s.cfg.Teams.Get(e.Owner)
	if !ok {
		return errNoReceiver
	}
	secrets, err := s.secretsOf(team)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, err := newRequest(ctx, team.URL, secrets, e, time.Now())
	if err != nil {
		return errRequest
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return newUnreachableError(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("receiver responded with %d", answer.StatusCode)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswerBytes) // reading the body allows the connection to be reused
	return nil
}

// newUnreachableError returns the error for a request that received no valid response. It wraps only errors that contain
// neither the receiver's URL nor its response, because both may contain secrets.
func newUnreachableError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errLate
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("receiver unreachable: %w", failed)
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("receiver unreachable: %w", untrusted)
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return errLate
	}
	return errUnreadable
}

// secretsOf returns the signing secrets for a team's receiver. The first call for a file reads the file. Later calls reload it
// when its contents change.
func (s *Sender) secretsOf(team Team) (Secrets, error) {
	s.mu.Lock()
	known := s.secrets[team.SecretFile]
	s.mu.Unlock()
	if known != nil {
		return known.Get(), nil
	}
	known, err := reload.Open("event signing secret", s.cfg.Logger, ParseSecrets, team.SecretFile)
	if err != nil {
		return nil, err
	}
	secrets := known.Get()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[team.SecretFile] = known
	return secrets, nil
}

// CheckSecrets returns an error if a file of signing secrets is invalid.
func CheckSecrets(file string) error {
	_, err := reload.Open("event signing secret", slog.New(slog.DiscardHandler), ParseSecrets, file)
	return err
}
