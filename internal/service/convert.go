package service

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// Maximum sizes of the parts of a response. Longer names and descriptions are truncated. Longer lists are omitted.
const (
	maxName    = 1 << 10  // maximum size of a name in bytes
	maxProse   = 64 << 10 // maximum size of a description in bytes
	maxFields  = 1000     // maximum number of input fields of a model
	maxAllowed = 1000     // maximum number of allowed values of an input field
	fieldCost  = 8        // estimated overhead of an encoded field in bytes; not a limit
)

func accountMessage(a catalog.Account) *easelv1.Account {
	out := &easelv1.Account{
		BalanceCents: a.BalanceCents,
		CurrencyCode: catalog.CurrencyCode,
		ObserveTime:  timestamp(a.ObserveTime),
	}
	left := roomIn(out)
	out.UpstreamFields = left.convertObject("upstream_fields", a.Extra)
	out.OmittedFields = left.omitted
	return out
}

var outputKinds = map[catalog.OutputKind]easelv1.OutputKind{
	catalog.OutputFile: easelv1.OutputKind_OUTPUT_KIND_FILE,
	catalog.OutputText: easelv1.OutputKind_OUTPUT_KIND_TEXT,
}

func modelMessage(m catalog.Model) *easelv1.Model {
	out := &easelv1.Model{
		ModelId:     m.ID,
		DisplayName: clip(m.Name, maxName),
		Description: clip(m.Description, maxProse),
		OutputKind:  outputKinds[m.Output],
		ObserveTime: timestamp(m.ObserveTime),
	}
	left := roomIn(out)
	for _, f := range m.Fields {
		out.InputFields = append(out.InputFields, fieldMessage(f, left))
	}
	if len(out.GetInputFields()) > maxFields || left.left < 0 {
		out.InputFields, left = nil, roomIn(&easelv1.Model{ModelId: m.ID, Description: out.GetDescription()})
		left.addOmitted("input_fields")
	}
	out.UpstreamFields = left.convertObject("upstream_fields", m.Extra)
	out.OmittedFields = left.omitted
	return out
}

var fieldTypes = map[catalog.FieldType]easelv1.InputFieldType{
	catalog.FieldString:  easelv1.InputFieldType_INPUT_FIELD_TYPE_STRING,
	catalog.FieldInteger: easelv1.InputFieldType_INPUT_FIELD_TYPE_INTEGER,
	catalog.FieldNumber:  easelv1.InputFieldType_INPUT_FIELD_TYPE_NUMBER,
	catalog.FieldBoolean: easelv1.InputFieldType_INPUT_FIELD_TYPE_BOOLEAN,
	catalog.FieldObject:  easelv1.InputFieldType_INPUT_FIELD_TYPE_OBJECT,
	catalog.FieldArray:   easelv1.InputFieldType_INPUT_FIELD_TYPE_ARRAY,
}

func fieldMessage(f catalog.InputField, left *room) *easelv1.InputField {
	out := &easelv1.InputField{
		Name:        clean(f.Name),
		DisplayName: clip(f.DisplayName, maxName),
		Description: clip(f.Description, maxProse),
		Type:        fieldTypes[f.Type],
		Required:    f.Required,
		Minimum:     f.Minimum,
		Maximum:     f.Maximum,
	}
	left.left -= proto.Size(out) + fieldCost
	out.DefaultValue = left.convertValue("input_fields.default_value", f.Default)
	if len(f.Allowed) > maxAllowed {
		left.addOmitted("input_fields.allowed_values")
	} else {
		out.AllowedValues = left.convertValues("input_fields.allowed_values", f.Allowed...)
	}
	out.UpstreamFields = left.convertObject("input_fields.upstream_fields", f.Extra)
	return out
}

var states = map[catalog.State]easelv1.State{
	catalog.StateQueued:       easelv1.State_STATE_QUEUED,
	catalog.StateRunning:      easelv1.State_STATE_RUNNING,
	catalog.StateSucceeded:    easelv1.State_STATE_SUCCEEDED,
	catalog.StateFailed:       easelv1.State_STATE_FAILED,
	catalog.StateRefunded:     easelv1.State_STATE_REFUNDED,
	catalog.StateDeleted:      easelv1.State_STATE_DELETED,
	catalog.StateUnrecognized: easelv1.State_STATE_UNRECOGNIZED,
}

func generationMessage(g catalog.Generation, etag string) *easelv1.Generation {
	if g.State.Terminal() && g.TerminalTime.IsZero() {
		g.TerminalTime = g.ObserveTime // the catalog did not send the terminal time
	}
	out := &easelv1.Generation{
		GenerationId:   g.ID,
		ModelId:        clip(g.ModelID, maxName),
		State:          states[g.State],
		UpstreamStatus: clean(g.Status),
		Terminal:       g.State.Terminal(),
		CostCents:      g.CostCents,
		FailureMessage: clip(g.FailureMessage, 1<<10),
		CreateTime:     timestamp(g.CreateTime),
		TerminalTime:   timestamp(g.TerminalTime),
		ObserveTime:    timestamp(g.ObserveTime),
		Etag:           etag,
	}
	if g.CostCents != nil {
		out.CurrencyCode = catalog.CurrencyCode
	}
	switch {
	case g.Text != nil:
		out.Result = &easelv1.Generation_Text{Text: &easelv1.TextResult{Text: clean(*g.Text)}}
	case g.File != nil:
		out.Result = &easelv1.Generation_File{File: &easelv1.FileResult{ContentType: clip(g.File.ContentType, maxName), SizeBytes: g.File.SizeBytes}}
	}
	left := roomIn(out)
	if left.left < 0 {
		out.Result = nil
		left = roomIn(out)
		left.addOmitted("text")
	}
	out.Inputs = left.convertObject("inputs", g.Inputs)
	out.UpstreamFields = left.convertObject("upstream_fields", g.Extra)
	for _, field := range g.Omitted {
		left.addOmitted(field)
	}
	out.OmittedFields = left.omitted
	return out
}

var conditions = map[watch.Condition]easelv1.UpstreamCondition{
	watch.ConditionHealthy:            easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY,
	watch.ConditionThrottled:          easelv1.UpstreamCondition_UPSTREAM_CONDITION_THROTTLED,
	watch.ConditionUnreachable:        easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE,
	watch.ConditionCredentialRejected: easelv1.UpstreamCondition_UPSTREAM_CONDITION_CREDENTIAL_REJECTED,
}

func heartbeatMessage(c *auth.Identity, h watch.Heartbeat) *easelv1.Heartbeat {
	out := &easelv1.Heartbeat{
		ObserveTime:             timestamp(h.ObserveTime),
		NextPollTime:            timestamp(h.NextPoll),
		UpstreamCondition:       conditions[h.Condition],
		ConsecutivePollFailures: int32(min(h.Failures, 1<<30)),
		LastError:               clip(lastError(c, h), 1<<10),
	}
	if h.HasTypical {
		out.TypicalRemaining = durationpb.New(h.TypicalRemaining)
	}
	return out
}

// errorKinds maps a condition in a heartbeat to the kind of error that causes the condition.
var errorKinds = map[watch.Condition]catalog.Kind{
	watch.ConditionThrottled:          catalog.KindRateLimited,
	watch.ConditionUnreachable:        catalog.KindUnavailable,
	watch.ConditionCredentialRejected: catalog.KindCredentialRejected,
}

// lastError returns the error of the last poll, or "" if that poll succeeded. If the poll was for another
// generation and the caller may not see the account, lastError returns only the kind of the error, or "" if the
// kind is unknown.
func lastError(c *auth.Identity, h watch.Heartbeat) string {
	kind, failing := errorKinds[h.Condition]
	if h.LastError == "" || h.Own || c.SeesAccount {
		return h.LastError
	}
	if !failing {
		return ""
	}
	return kind.String()
}

// timestamp converts a time to a Timestamp message. It returns nil for the zero time.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// clean replaces invalid UTF-8, which a proto string can't contain.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
