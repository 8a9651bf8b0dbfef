package service

import (
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func accountMessage(a catalog.Account) *easelv1.Account {
	return &easelv1.Account{
		BalanceCents:   a.BalanceCents,
		CurrencyCode:   catalog.CurrencyCode,
		ObserveTime:    timestamp(a.ObserveTime),
		UpstreamFields: object(a.Extra),
	}
}

var outputKinds = map[catalog.OutputKind]easelv1.OutputKind{
	catalog.OutputFile: easelv1.OutputKind_OUTPUT_KIND_FILE,
	catalog.OutputText: easelv1.OutputKind_OUTPUT_KIND_TEXT,
}

func modelMessage(m catalog.Model) *easelv1.Model {
	out := &easelv1.Model{
		ModelId:        m.ID,
		DisplayName:    clean(m.Name),
		Description:    clean(m.Description),
		OutputKind:     outputKinds[m.Output],
		ObserveTime:    timestamp(m.ObserveTime),
		UpstreamFields: object(m.Extra),
	}
	for _, f := range m.Fields {
		out.InputFields = append(out.InputFields, fieldMessage(f))
	}
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

func fieldMessage(f catalog.InputField) *easelv1.InputField {
	out := &easelv1.InputField{
		Name:           clean(f.Name),
		DisplayName:    clean(f.DisplayName),
		Description:    clean(f.Description),
		Type:           fieldTypes[f.Type],
		Required:       f.Required,
		Minimum:        f.Minimum,
		Maximum:        f.Maximum,
		UpstreamFields: object(f.Extra),
	}
	if f.Default != nil {
		out.DefaultValue = value(f.Default)
	}
	for _, v := range f.Allowed {
		out.AllowedValues = append(out.AllowedValues, value(v))
	}
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
		g.TerminalTime = g.ObserveTime // seen terminal for the first time as far as is known
	}
	out := &easelv1.Generation{
		GenerationId:   g.ID,
		ModelId:        clean(g.ModelID),
		State:          states[g.State],
		UpstreamStatus: clean(g.Status),
		Terminal:       g.State.Terminal(),
		CostCents:      g.CostCents,
		FailureMessage: clip(g.FailureMessage, 1<<10),
		CreateTime:     timestamp(g.CreateTime),
		TerminalTime:   timestamp(g.TerminalTime),
		ObserveTime:    timestamp(g.ObserveTime),
		Etag:           etag,
		Inputs:         object(g.Inputs),
		UpstreamFields: object(g.Extra),
	}
	switch {
	case g.Text != nil:
		out.Result = &easelv1.Generation_Text{Text: &easelv1.TextResult{Text: clean(*g.Text)}}
	case g.File != nil:
		out.Result = &easelv1.Generation_File{File: &easelv1.FileResult{ContentType: clean(g.File.ContentType), SizeBytes: g.File.SizeBytes}}
	}
	return out
}

var conditions = map[watch.Condition]easelv1.UpstreamCondition{
	watch.ConditionHealthy:            easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY,
	watch.ConditionThrottled:          easelv1.UpstreamCondition_UPSTREAM_CONDITION_THROTTLED,
	watch.ConditionUnreachable:        easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE,
	watch.ConditionCredentialRejected: easelv1.UpstreamCondition_UPSTREAM_CONDITION_CREDENTIAL_REJECTED,
}

func heartbeatMessage(c call, h watch.Heartbeat) *easelv1.Heartbeat {
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

// errorKinds are the kinds of the errors that a condition comes from.
var errorKinds = map[watch.Condition]catalog.Kind{
	watch.ConditionThrottled:          catalog.KindRateLimited,
	watch.ConditionUnreachable:        catalog.KindUnavailable,
	watch.ConditionCredentialRejected: catalog.KindCredentialRejected,
}

// lastError is what a caller may know of the last error: its kind alone, where it may be of another owner's
// generation.
func lastError(c call, h watch.Heartbeat) string {
	kind, failing := errorKinds[h.Condition]
	if h.LastError == "" || h.Own || c.seesAccount() {
		return h.LastError
	}
	if !failing {
		return ""
	}
	return kind.String()
}

// timestamp leaves a time that is not known absent.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// object makes a Struct of JSON members; nil where there are none.
func object(members map[string]any) *structpb.Struct {
	if members == nil {
		return nil
	}
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(members))}
	for name, v := range members {
		out.Fields[clean(name)] = value(v)
	}
	return out
}

// value makes a Value of what encoding/json decodes. A number that no double holds is
// kept as text rather than changed.
func value(v any) *structpb.Value {
	switch v := v.(type) {
	case nil:
		return structpb.NewNullValue()
	case bool:
		return structpb.NewBoolValue(v)
	case string:
		return structpb.NewStringValue(clean(v))
	case float64:
		return structpb.NewNumberValue(v)
	case json.Number:
		if f, err := v.Float64(); err == nil && exact(v.String()) {
			return structpb.NewNumberValue(f)
		}
		return structpb.NewStringValue(v.String())
	case map[string]any:
		return structpb.NewStructValue(object(v))
	case []any:
		list := &structpb.ListValue{Values: make([]*structpb.Value, len(v))}
		for i, item := range v {
			list.Values[i] = value(item)
		}
		return structpb.NewListValue(list)
	}
	return structpb.NewNullValue()
}

// exact reports whether a JSON number is not an integer beyond 2^53.
func exact(number string) bool {
	digits := strings.TrimPrefix(number, "-")
	if strings.ContainsAny(digits, ".eE") || len(digits) < 16 {
		return true
	}
	n, err := json.Number(number).Int64()
	return err == nil && n >= -maxExact && n <= maxExact
}

// clean makes text fit for a proto string.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
