package cli

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// failure is an error taken apart for its reader.
type failure struct {
	exit         int
	code         string // of gRPC, "" where the error is our own
	reason       string // of ErrorInfo
	message      string
	resource     string // what was not found
	generationID string // what it is about
	fields       []badField
	retryDelay   time.Duration
	metadata     map[string]string
	cure         string
	batch        *batchSum
}

// badField is one input that was refused, and why.
type badField struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// explain takes err apart. The context is that of the whole program.
func explain(ctx context.Context, err error) failure {
	if order := (orderError{}); errors.As(err, &order) {
		f := explain(ctx, order.err)
		switch {
		case order.known == nothingOrdered && reasonNamed(f.reason) == easelv1.ErrorReason_PRICE_ABOVE_LIMIT: // else they would be a second order
			f.cure += " Or choose cheaper inputs: easel quote shows their price."
		case order.known != nothingOrdered && reasonNamed(f.reason) == easelv1.ErrorReason_UPSTREAM_CREDENTIAL_REJECTED: // so would it be under another API key
			f.cure = listFirst
		}
		f.cure = strings.TrimSpace(order.known + " " + f.cure)
		return f
	}
	if own := (*Problem)(nil); errors.As(err, &own) {
		f := failure{exit: own.Exit, message: own.Text, cure: own.Cure, generationID: own.generationID, batch: own.batch}
		if s, ok := statusOf(own.Err); ok {
			f.code = codeName(s.Code())
			f.addDetails(s)
		}
		return f
	}
	if interrupted(ctx) {
		return failure{exit: ExitInterrupted, message: "interrupted"}
	}
	s, ok := statusOf(err)
	if errors.Is(err, context.DeadlineExceeded) {
		s, ok = status.New(codes.DeadlineExceeded, "the time ran out"), true
	}
	if !ok {
		return failure{exit: ExitFailure, message: err.Error()}
	}
	f := failure{code: codeName(s.Code()), message: plainMessage(s.Message())}
	f.addDetails(s)
	f.exit = exitOf(s.Code(), f.reason)
	if f.cure = cureOf(s.Code(), f.reason, f.message); isNeverResent(s.Err()) {
		f.cure = "" // it is never sent again
	}
	if strings.Contains(f.message, webServer) {
		f.message = "this is the REST port, or another web server: it speaks HTTP/1.1, and gRPC is HTTP/2"
		f.cure = "The gRPC address is EASEL_GRPC_ADDR of easel serve, mostly with port 50051. See --addr."
	}
	if cents, err := strconv.ParseInt(f.metadata["price_cents"], 10, 64); err == nil {
		f.cure = "It would cost " + Money(cents, "") + ". " + f.cure
	}
	return f
}

// detailsOf is what the server says of an error beside code and message.
func detailsOf(err error) (f failure) {
	f.addDetails(status.Convert(err))
	return f
}

// addDetails reads what the server says beside code and message.
func (f *failure) addDetails(s *status.Status) {
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			f.reason, f.metadata = d.Reason, d.Metadata
		case *errdetails.RetryInfo:
			f.retryDelay = d.RetryDelay.AsDuration()
		case *errdetails.ResourceInfo:
			f.resource = d.ResourceName
		case *errdetails.BadRequest:
			for _, v := range d.FieldViolations {
				f.fields = append(f.fields, badField{v.Field, v.Description})
			}
		}
	}
}

// statusOf finds the status of a failed call, under whatever was put around it.
func statusOf(err error) (*status.Status, bool) {
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		return s.GRPCStatus(), true
	}
	return nil, false
}

// codeName spells a code as the contract does: NOT_FOUND, not NotFound.
func codeName(c codes.Code) string { return rpccode.Code(c).String() }

// webServer is what the transport says of an answer in HTTP/1.1.
const webServer = "looked like an HTTP/1.1 header"

// plainMessage takes the wrapping off what the transport says of a failed connection.
func plainMessage(text string) string {
	const wrapping = `desc = "transport: `
	if _, inner, found := strings.Cut(text, wrapping); found {
		return strings.TrimSuffix(inner, `"`)
	}
	return text
}

// messageOf is what an error says, in one line.
func messageOf(err error) string {
	return terminal.OneLine(plainMessage(status.Convert(err).Message()))
}

// write prints the failure for a person: one line that says what, one that says what to do.
// On a terminal, which has a width, they are wrapped between words, and the command to copy
// gets a line of its own.
func (f failure) write(w io.Writer, width int) {
	text := wrapped("easel: "+f.line(), width)
	cure, command := terminal.OneLine(f.cure), ""
	if before, after, found := strings.Cut(cure, ": easel "); found && width > 0 {
		cure, command = before+":", "         easel "+after+"\n"
	}
	if cure != "" {
		text += wrapped("       "+cure, width)
	}
	_, _ = io.WriteString(w, terminal.Sanitize(text+command)) // where errors can't be written, nothing can be done
}

// wrapped breaks a line between words so that it fits, and indents what follows as its
// cure is. Without a width the line stays one.
func wrapped(line string, width int) string {
	const indent = "       "
	if width <= 2*len(indent) {
		return line + "\n"
	}
	var out strings.Builder
	column := 0
	for i, word := range strings.Split(line, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n >= width && column > len(indent):
			out.WriteString("\n" + indent)
			column = len(indent)
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += n
	}
	return out.String() + "\n"
}

// line says what has failed.
func (f failure) line() string {
	line := f.message
	if !strings.Contains(line, f.resource) {
		line = strings.TrimSuffix(line, ".") + ": " + f.resource
	}
	for _, field := range f.fields {
		// Where the catalog names one bad field, message and description are often the same.
		if !strings.Contains(f.message, field.Description) {
			line += "; " + field.Field + ": " + field.Description
		} else if !strings.Contains(f.message, field.Field) {
			line += "; see " + field.Field
		}
	}
	if f.code != "" {
		line += " (" + strings.TrimSuffix(f.code+" "+f.reason, " ") + ")"
	}
	if f.retryDelay > 0 {
		line += "; try again in " + formatDuration(f.retryDelay)
	}
	return terminal.OneLine(line)
}

// failureBody is a failure for a program.
type failureBody struct {
	Code              string            `json:"code,omitempty"`
	Reason            string            `json:"reason,omitempty"`
	Message           string            `json:"message"`
	GenerationID      string            `json:"generationId,omitempty"`
	Resource          string            `json:"resource,omitempty"`
	Fields            []badField        `json:"fields,omitempty"`
	RetryDelaySeconds float64           `json:"retryDelaySeconds,omitempty"`
	Metadata          map[string]string `json:"metadata,omitempty"`
	Cure              string            `json:"cure,omitempty"`
	ExitCode          int               `json:"exitCode"`
	Batch             *batchSum         `json:"batch,omitempty"`
}

func (f failure) body() failureBody {
	return failureBody{
		f.code, f.reason, f.message, f.generationID, f.resource, f.fields,
		f.retryDelay.Seconds(), f.metadata, f.cure, f.exit, f.batch,
	}
}

// writeJSON prints the failure for a program.
func (f failure) writeJSON(w io.Writer) { writeJSONLine(w, map[string]failureBody{"error": f.body()}) }

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

const exitCodes = `Exit codes:
    0   ok
    1   any other failure
    2   the command line, a setting or an input is wrong
    3   there is no such render or model
    4   refused for money: balance, budget, daily cap, or the limit of --max-cost
    5   no key, a wrong key, or not allowed
    6   not now: server or catalog unavailable, rate limited, or time ran out; try again
    7   the render failed or was refunded
  130   interrupted
`

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
	batch        *batchSum
}

// Error is the first line of what is printed.
func (p *Problem) Error() string { return p.Text }

// Unwrap gives what lies below.
func (p *Problem) Unwrap() error { return p.Err }

// badUsage is the error of a command line or setting that makes no sense.
func badUsage(text, cure string) error {
	return &Problem{Exit: ExitUsage, Text: text, Cure: cure}
}

// reasonNamed is a reason of the contract by its name, or ERROR_REASON_UNSPECIFIED: the server may be newer.
func reasonNamed(reason string) easelv1.ErrorReason {
	return easelv1.ErrorReason(easelv1.ErrorReason_value[reason])
}

// exitOf gives the exit code of a failed call.
func exitOf(code codes.Code, reason string) int {
	switch reasonNamed(reason) {
	case easelv1.ErrorReason_INSUFFICIENT_BALANCE, easelv1.ErrorReason_PRICE_ABOVE_LIMIT, easelv1.ErrorReason_API_KEY_DAILY_CAP, easelv1.ErrorReason_BUDGET_EXCEEDED:
		return ExitMoney
	case easelv1.ErrorReason_IDEMPOTENCY_KEY_REUSED:
		return ExitUsage
	case easelv1.ErrorReason_CONTENT_NOT_READY:
		return ExitRetry
	}
	switch code {
	case codes.InvalidArgument, codes.OutOfRange:
		return ExitUsage
	case codes.NotFound:
		return ExitNotFound
	case codes.Unauthenticated, codes.PermissionDenied:
		return ExitCredential
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded:
		return ExitRetry
	case codes.Canceled:
		return ExitInterrupted
	}
	return ExitFailure
}

// interrupted reports whether the program was told to stop. The error of a call says only
// that it was cancelled, so the program's own context decides.
func interrupted(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.Canceled)
}
