package cli

import (
	"cmp"
	"context"
	_ "embed" // for exit-codes.txt
	"errors"
	"io"
	"maps"
	"strings"
	"time"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	easel "github.com/easel-grpc/easel/clients/go"
	"github.com/easel-grpc/easel/internal/terminal"
)

// failure is an error as it is printed: as text for people, or as JSON for programs.
type failure struct {
	Code              string            `json:"code,omitempty"`   // gRPC code; empty if the error is not from a call
	Reason            string            `json:"reason,omitempty"` // name of an ErrorReason in the contract; empty if the server sent no reason
	Message           string            `json:"message"`
	GenerationID      string            `json:"generationId,omitempty"`
	Resource          string            `json:"resource,omitempty"` // ID of the render or model that was not found
	Fields            []badField        `json:"fields,omitempty"`
	RequestID         string            `json:"requestId,omitempty"` // ID of the request in the server's log
	RetryDelaySeconds float64           `json:"retryDelaySeconds,omitempty"`
	Metadata          map[string]string `json:"metadata,omitempty"`
	Cure              string            `json:"cure,omitempty"`
	ExitCode          int               `json:"exitCode"`
}

// badField is an invalid field in a request, and the reason why it is invalid.
type badField struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// failureOf converts an error to a failure. ctx is the program's context, which is canceled by an interrupt.
func failureOf(ctx context.Context, err error) failure {
	if own, ok := errors.AsType[*Problem](err); ok {
		return own.toFailure(ctx)
	}
	e := baseOf(err)
	f := detailsOf(e)
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // an interrupt canceled ctx, but err says only that the call was canceled
		return failure{ExitCode: ExitInterrupted, Message: "interrupted"}
	case errors.Is(err, context.DeadlineExceeded) || e != nil && e.Code == codes.DeadlineExceeded:
		f.Code, f.ExitCode, f.Message, f.Cure = codeName(codes.DeadlineExceeded), ExitRetry, "the command timed out", "Set a longer --timeout."
		if e != nil && e.Code != codes.DeadlineExceeded {
			f.Message = plainMessage(e.Message)
		}
	case e == nil:
		f.ExitCode, f.Message = ExitFailure, strings.TrimPrefix(err.Error(), "easel: ")
	default:
		byReason, byCode := remedies[e.Reason], remedies[f.Code]
		f.ExitCode, f.Message, f.Cure = cmp.Or(byReason.exit, byCode.exit, ExitFailure), plainMessage(e.Message), byReason.cure
		switch {
		case e.Reason == "CREDENTIAL_MISSING":
			f.Message = "no API key" // the server's message is about gRPC metadata, which does not concern users of the command line
		case e.Reason == "BUDGET_EXCEEDED" && e.LabelName != "": // the usual hint, 'easel account', does not show budgets for label values
			f.Cure = "easel usage --by " + terminal.ShellQuote("label="+e.LabelName) + " shows the amount spent for each value of the label."
		}
		if f.Cure == "" && (e.Reason == "" || e.Code != codes.Unavailable) { // a server that sends a reason is reachable, so the hint for UNAVAILABLE does not apply
			f.Cure = byCode.cure
		}
	}
	return f
}

// toFailure converts a problem to a failure. The exit code, message and generation ID that the problem does not set are
// those of the error p.Err. The result contains the Cure of p.Err only if p.keepCure is true.
func (p *Problem) toFailure(ctx context.Context) (f failure) {
	cure := ""
	if p.Err != nil {
		f = failureOf(ctx, p.Err)
	}
	if p.keepCure {
		cure = f.Cure
	}
	f.ExitCode, f.Message, f.GenerationID = cmp.Or(p.Exit, f.ExitCode), cmp.Or(p.Text, f.Message), cmp.Or(p.generationID, f.GenerationID)
	f.Cure = strings.TrimSpace(p.Cure + " " + cure)
	return f
}

// baseOf returns the [easel.Error] that err wraps, or nil if err does not come from a call.
func baseOf(err error) *easel.Error {
	e := (*easel.Error)(nil)
	errors.As(err, &e)
	return e
}

// detailsOf returns the details of a call's error as a failure without a message. For an order, the failure contains the
// outcome of the whole call, not of its last attempt.
func detailsOf(e *easel.Error) (f failure) {
	if e == nil {
		return f
	}
	f.Code, f.Reason, f.Resource, f.RequestID, f.Metadata = codeName(e.Code), e.Reason, e.Resource, e.RequestID, e.Metadata
	f.RetryDelaySeconds = e.RetryAfter.Seconds()
	if e.OrderOutcome != "" { // e.Metadata contains only the outcome of the last attempt
		f.Metadata = maps.Clone(e.Metadata)
		if f.Metadata == nil {
			f.Metadata = map[string]string{}
		}
		f.Metadata["order_outcome"] = string(e.OrderOutcome)
	}
	for _, v := range e.FieldViolations {
		f.Fields = append(f.Fields, badField(v))
	}
	return f
}

// codeName returns a code as the contract spells it: NOT_FOUND, not NotFound.
func codeName(c codes.Code) string { return rpccode.Code(c).String() }

// plainMessage returns the transport's message about a failed connection, without the text that gRPC adds around it. It
// returns other messages unchanged.
func plainMessage(text string) string {
	if _, inner, found := strings.Cut(text, `desc = "`); found {
		return strings.TrimPrefix(strings.TrimSuffix(inner, `"`), "transport: ")
	}
	return text
}

// messageOf returns an error's message as one line.
func messageOf(err error) string {
	text := err.Error()
	if e := baseOf(err); e != nil {
		text = e.Message
	}
	return terminal.OneLine(plainMessage(text))
}

// write prints the failure as text: the error on one line, and the hint, if there is one, on another.
func (f failure) write(w io.Writer) {
	text := "easel: " + f.oneLine() + "\n"
	if f.Cure != "" {
		text += "       " + terminal.OneLine(f.Cure) + "\n"
	}
	_, _ = io.WriteString(w, terminal.Sanitize(text)) // a failure to write an error can't be reported
}

// oneLine returns the failure as one line, without the hint.
func (f failure) oneLine() string {
	line := f.Message
	if !strings.Contains(line, f.Resource) {
		line = strings.TrimSuffix(line, ".") + ": " + f.Resource
	}
	for _, field := range f.Fields {
		if !strings.Contains(f.Message, field.Description) { // a message about a single field often contains the field's description already
			line += "; " + field.Field + ": " + field.Description
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

// The exit codes are part of the interface, because scripts depend on them.
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

// Run prints the exit codes.
func (exitCodesCmd) Run(p *Program) error {
	_, err := io.WriteString(p.Stdout, exitCodes)
	return err
}

// Problem is an error that the program itself detects, or a wrapper that adds a hint to another error.
type Problem struct {
	Exit int    // exit code; zero means the exit code of the cause
	Text string // message; empty means the message of the cause
	Cure string // hint for fixing the failure; empty if the remedy is obvious
	Err  error  // the cause, or nil

	keepCure     bool   // whether to print the Cure of Err after Cure
	generationID string // ID of the affected render; empty unless there is exactly one
}

// Error returns the problem's text, or its cause's message if the text is empty.
func (p *Problem) Error() string {
	if p.Text == "" {
		return p.Err.Error()
	}
	return p.Text
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// badUsage returns the error for an invalid command line or setting.
func badUsage(text, cure string) error {
	return &Problem{Exit: ExitUsage, Text: text, Cure: cure}
}

// remedies contains the exit codes and hints for failed calls, keyed by reason or gRPC code. If the exit code of a
// reason is zero, the exit code of the gRPC code applies.
var remedies = map[string]struct {
	exit int
	cure string
}{
	"INSUFFICIENT_BALANCE":         {ExitMoney, "Top up the account, then send the same order again with its --idempotency-key."},
	"PRICE_ABOVE_LIMIT":            {ExitMoney, "Raise --max-cost, and send the same order again."},
	"API_KEY_DAILY_CAP":            {ExitMoney, "Wait for the next day, then send the same order again with its --idempotency-key."},
	"BUDGET_EXCEEDED":              {ExitMoney, "easel account shows the budgets, and the times when they are reset."},
	"IDEMPOTENCY_KEY_REUSED":       {ExitUsage, ""},
	"UPSTREAM_RATE_LIMITED":        {ExitRetry, ""},
	"OVERLOADED":                   {ExitRetry, ""},
	"STREAM_QUOTA_EXCEEDED":        {ExitRetry, ""},
	"READER_TOO_SLOW":              {ExitRetry, ""},
	"CONTENT_NOT_READY":            {ExitRetry, "easel download --wait 10m waits for the result."},
	"MODEL_NOT_ALLOWED":            {0, "easel models lists the models that your team may use."},
	"UPSTREAM_CREDENTIAL_REJECTED": {0, "Check EASEL_API_KEY or --api-key-file; if the server has a shared API key, inform the server's operator."},
	"CREDENTIAL_MISSING":           {0, "Set EASEL_API_KEY or --api-key-file."},
	"CALLER_UNKNOWN":               {0, "Check the service token in EASEL_API_KEY or --api-key-file, or the certificate of --tls-cert-file."},
	"MODEL_NOT_FOUND":              {0, "easel models lists the models."},
	"GENERATION_NOT_FOUND":         {0, "easel list shows the renders of this API key."},
	"ORDER_EXPIRED":                {0, "Order again with a later --expire, or without it."},
	"GENERATION_ACTIVE":            {0, "--force deletes the render anyway; its price might not be refunded."},

	"INVALID_ARGUMENT":   {ExitUsage, ""},
	"OUT_OF_RANGE":       {ExitUsage, ""},
	"NOT_FOUND":          {ExitNotFound, ""},
	"UNAUTHENTICATED":    {ExitCredential, "Check EASEL_API_KEY or --api-key-file."},
	"PERMISSION_DENIED":  {ExitCredential, ""},
	"UNAVAILABLE":        {ExitRetry, "Check --addr, and that the server is running there."},
	"RESOURCE_EXHAUSTED": {ExitUsage, "Send a smaller request."},
	"ABORTED":            {ExitRetry, ""},
	"CANCELLED":          {ExitInterrupted, ""},
	"UNIMPLEMENTED":      {ExitFailure, "Is this the gRPC address of Easel? See --addr."},
}
