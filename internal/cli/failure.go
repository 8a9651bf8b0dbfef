package cli

import (
	"cmp"
	"context"
	_ "embed" // exit-codes.txt
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	easel "github.com/easel-grpc/easel/clients/go"
	"github.com/easel-grpc/easel/internal/terminal"
)

// failure is an error taken apart for its reader, and as JSON for a program.
type failure struct {
	Code              string            `json:"code,omitempty"`   // of gRPC, "" where the error is our own
	Reason            string            `json:"reason,omitempty"` // of the contract
	Message           string            `json:"message"`
	GenerationID      string            `json:"generationId,omitempty"`
	Resource          string            `json:"resource,omitempty"` // what was not found
	Fields            []badField        `json:"fields,omitempty"`
	RequestID         string            `json:"requestId,omitempty"` // which the server's log has
	RetryDelaySeconds float64           `json:"retryDelaySeconds,omitempty"`
	Metadata          map[string]string `json:"metadata,omitempty"`
	Cure              string            `json:"cure,omitempty"`
	ExitCode          int               `json:"exitCode"`
}

// badField is one input that was refused, and why.
type badField struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// explain takes err apart. The context is that of the whole program.
func explain(ctx context.Context, err error) failure {
	if order := (orderError{}); errors.As(err, &order) {
		return order.advised(explain(ctx, order.err))
	}
	e := baseOf(err)
	body := detailsOf(e)
	if own := (*Problem)(nil); errors.As(err, &own) {
		body.ExitCode, body.Message, body.Cure, body.GenerationID = own.Exit, own.Text, own.Cure, own.generationID
		return body
	}
	switch {
	case interrupted(ctx):
		return failure{ExitCode: ExitInterrupted, Message: "interrupted"}
	case errors.Is(err, context.DeadlineExceeded) || e != nil && e.Code == codes.DeadlineExceeded:
		body.Code, body.ExitCode, body.Message, body.Cure = codeName(codes.DeadlineExceeded), ExitRetry, "the time ran out", "--timeout sets how long to wait."
		if e != nil && e.Code != codes.DeadlineExceeded {
			body.Message = plainMessage(e.Message)
		}
	case e == nil:
		body.ExitCode, body.Message = ExitFailure, strings.TrimPrefix(err.Error(), "easel: ")
	default:
		body.ExitCode, body.Message, body.Cure = exitOf(e), plainMessage(e.Message), cureOf(e)
	}
	if cents, err := strconv.ParseInt(body.Metadata["price_cents"], 10, 64); err == nil {
		body.Cure = "It would cost " + Money(cents, "") + ". " + body.Cure
	}
	return body
}

// baseOf is what the server says of an error, nil where it is not the server's.
func baseOf(err error) *easel.Error {
	e := (*easel.Error)(nil)
	errors.As(err, &e)
	return e
}

// detailsOf is what the server says beside its message.
func detailsOf(e *easel.Error) (body failure) {
	if e == nil {
		return body
	}
	body.Code, body.Reason, body.Resource, body.RequestID, body.Metadata = codeName(e.Code), e.Reason, e.Resource, e.RequestID, e.Metadata
	body.RetryDelaySeconds = e.RetryAfter.Seconds()
	for _, v := range e.FieldViolations {
		body.Fields = append(body.Fields, badField(v))
	}
	return body
}

// codeName spells a code as the contract does: NOT_FOUND, not NotFound.
func codeName(c codes.Code) string { return rpccode.Code(c).String() }

// plainMessage takes the wrapping off what the transport says of a failed connection.
func plainMessage(text string) string {
	if _, inner, found := strings.Cut(text, `desc = "`); found {
		return strings.TrimPrefix(strings.TrimSuffix(inner, `"`), "transport: ")
	}
	return text
}

// messageOf is what an error says, in one line.
func messageOf(err error) string {
	text := err.Error()
	if e := baseOf(err); e != nil {
		text = e.Message
	}
	return terminal.OneLine(plainMessage(text))
}

// write prints the failure for a person: one line that says what, one that says what to do. On a terminal, which has a
// width, they are wrapped between words, and the command to copy gets a line of its own.
func (f failure) write(w io.Writer, width int) {
	lines := terminal.Wrap("easel: "+f.line(), width, 7)
	cure, command := terminal.OneLine(f.Cure), ""
	if before, after, found := strings.Cut(cure, ": easel "); found && width > 0 {
		cure, command = before+":", "         easel "+after
	}
	if cure != "" {
		lines = append(lines, terminal.Wrap("       "+cure, width, 7)...)
	}
	if command != "" {
		lines = append(lines, command)
	}
	_, _ = io.WriteString(w, terminal.Sanitize(strings.Join(lines, "\n")+"\n")) // where errors can't be written, nothing can be done
}

// line says what has failed.
func (f failure) line() string {
	line := f.Message
	if !strings.Contains(line, f.Resource) {
		line = strings.TrimSuffix(line, ".") + ": " + f.Resource
	}
	for _, field := range f.Fields {
		// Where the catalog names one bad field, message and description are often the same.
		if !strings.Contains(f.Message, field.Description) {
			line += "; " + field.Field + ": " + field.Description
		} else if !strings.Contains(f.Message, field.Field) {
			line += "; see " + field.Field
		}
	}
	if f.Code != "" {
		line += " (" + strings.TrimSuffix(f.Code+" "+f.Reason, " ") + ")"
	}
	if f.RetryDelaySeconds > 0 {
		line += "; try again in " + formatDuration(time.Duration(f.RetryDelaySeconds*float64(time.Second)))
	}
	return terminal.OneLine(line)
}

func writeJSONLine(w io.Writer, v any) { _, _ = io.WriteString(w, jsonLine(v)+"\n") }

// Exit codes. They are part of the interface: scripts decide by them.
const (
	ExitOK               = 0
	ExitFailure          = 1
	ExitUsage            = 2
	ExitNotFound         = 3
	ExitMoney            = 4
	ExitCredential       = 5
	ExitRetry            = 6
	ExitGenerationFailed = 7
	ExitInterrupted      = 130
)

//go:embed exit-codes.txt
var exitCodes string

type exitCodesCmd struct{}

// Run prints the table.
func (exitCodesCmd) Run(p *Program) error {
	_, err := io.WriteString(p.Stdout, exitCodes)
	return err
}

// Problem is an error of this program itself, with the words for its reader.
type Problem struct {
	Exit int
	Text string
	Cure string // what to do about it; "" where it is plain
	Err  error  // what lies below, nil where nothing does

	generationID string // the generation that it is about, "" where it is about none or many
}

// Error is the first line of what is printed.
func (p *Problem) Error() string { return p.Text }

// Unwrap gives what lies below.
func (p *Problem) Unwrap() error { return p.Err }

// badUsage is the error of a command line or setting that makes no sense.
func badUsage(text, cure string) error {
	return &Problem{Exit: ExitUsage, Text: text, Cure: cure}
}

// remedies are how a command ends after a failed call and what helps, by the reason or by the code. A reason without an
// exit code has that of its code.
var remedies = map[string]struct {
	exit int
	cure string
}{
	"INSUFFICIENT_BALANCE":         {ExitMoney, "Top up the account, then send the same order again with its --idempotency-key."},
	"PRICE_ABOVE_LIMIT":            {ExitMoney, "Raise --max-cost, and send the same order again."},
	"API_KEY_DAILY_CAP":            {ExitMoney, "Wait for the next day, then send the same order again with its --idempotency-key."},
	"BUDGET_EXCEEDED":              {ExitMoney, "easel account shows the budgets, and when the next one begins."},
	"IDEMPOTENCY_KEY_REUSED":       {ExitUsage, ""},
	"CONTENT_NOT_READY":            {ExitRetry, "easel download --wait 10m waits for the result."},
	"MODEL_NOT_ALLOWED":            {0, "easel models lists the models that your team may use."},
	"UPSTREAM_CREDENTIAL_REJECTED": {0, "Check EASEL_API_KEY or --api-key-file; where the server holds the key, tell its operator."},
	"CALLER_UNKNOWN":               {0, "Check the service token in EASEL_API_KEY or --api-key-file, or the certificate of --tls-cert-file."},
	"MODEL_NOT_FOUND":              {0, "easel models lists what there is."},
	"GENERATION_NOT_FOUND":         {0, "easel list shows the renders of this API key."},
	"GENERATION_ACTIVE":            {0, "--force deletes it all the same; its price may not come back."},

	"INVALID_ARGUMENT":   {ExitUsage, ""},
	"OUT_OF_RANGE":       {ExitUsage, ""},
	"NOT_FOUND":          {ExitNotFound, ""},
	"UNAUTHENTICATED":    {ExitCredential, "Check EASEL_API_KEY or --api-key-file."},
	"PERMISSION_DENIED":  {ExitCredential, ""},
	"UNAVAILABLE":        {ExitRetry, "Check --addr, and that the server is running there."},
	"RESOURCE_EXHAUSTED": {ExitRetry, ""},
	"ABORTED":            {ExitRetry, ""},
	"DEADLINE_EXCEEDED":  {ExitRetry, ""},
	"CANCELLED":          {ExitInterrupted, ""},
	"UNIMPLEMENTED":      {ExitFailure, "Is this the gRPC address of Easel? See --addr."},
}

// exitOf gives the exit code of a failed call.
func exitOf(e *easel.Error) int {
	return cmp.Or(remedies[e.Reason].exit, remedies[codeName(e.Code)].exit, ExitFailure)
}

// cureOf says what helps, where that is known.
func cureOf(e *easel.Error) string {
	if cure := remedies[e.Reason].cure; cure != "" || e.Reason != "" && e.Code == codes.Unavailable {
		return cure
	}
	return remedies[codeName(e.Code)].cure
}

// interrupted reports whether the program was told to stop. The error of a call says only
// that it was cancelled, so the program's own context decides.
func interrupted(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.Canceled)
}
