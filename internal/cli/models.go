package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type modelsCmd struct{ callFlags }

// Run lists all models.
func (c *modelsCmd) Run(ctx context.Context, s *session) error {
	all, ids, rows := &easelv1.ListModelsResponse{}, []string{}, [][]terminal.Cell{}
	for model, err := range s.Models(ctx) {
		if err != nil {
			return err
		}
		m := model.Raw
		all.Models = append(all.Models, m)
		ids = append(ids, terminal.OneLine(m.ModelId))
		row := terminal.Cells(m.ModelId, outputs[m.OutputKind], m.DisplayName, m.Description)
		row[0].Colour = terminal.Bold
		rows = append(rows, row)
	}
	return s.printResult(all, strings.Join(ids, "\n"), func() { s.Table([]string{"MODEL", "MAKES", "NAME", "DESCRIPTION"}, rows) })
}

var outputs = map[easelv1.OutputKind]string{easelv1.OutputKind_OUTPUT_KIND_FILE: "file", easelv1.OutputKind_OUTPUT_KIND_TEXT: "text"}

type modelCmd struct {
	callFlags
	Model string `arg:"" help:"The model, as listed by 'easel models'."`
}

// Run shows one model and its inputs.
func (c *modelCmd) Run(ctx context.Context, s *session) error {
	model, err := s.Model(ctx, c.Model)
	if err != nil {
		return err
	}
	m := model.Raw
	return s.printResult(m, terminal.OneLine(m.ModelId), func() {
		s.Fields([][2]string{
			{"model", terminal.OneLine(m.ModelId)}, {"name", terminal.OneLine(m.DisplayName)}, {"makes", outputs[m.OutputKind]}, {"about", terminal.OneLine(m.Description)},
		})
		s.printInputs(m.InputFields)
	})
}

func (s *session) printInputs(fields []*easelv1.InputField) {
	s.Print("")
	if len(fields) == 0 {
		s.Print("The catalog does not describe its inputs.")
		return
	}
	var rows [][]terminal.Cell
	for _, f := range fields {
		row := terminal.Cells(f.Name, typeText(f), valueText(f.DefaultValue), allowedText(f), f.Description)
		row[0].Colour = terminal.Bold
		rows = append(rows, row)
	}
	s.Table([]string{"INPUT", "TYPE", "DEFAULT", "ALLOWED", "DESCRIPTION"}, rows)
}

func typeText(f *easelv1.InputField) string {
	kind, required := "", ""
	if f.Type != easelv1.InputFieldType_INPUT_FIELD_TYPE_UNSPECIFIED {
		kind = strings.ToLower(strings.TrimPrefix(f.Type.String(), "INPUT_FIELD_TYPE_"))
	}
	if f.GetRequired() {
		required = "required"
	}
	return joinNonEmpty(kind, required)
}

// valueText formats an input's value as a user can type it on the command line.
func valueText(v *structpb.Value) string {
	if v == nil {
		return ""
	}
	if text, ok := v.Kind.(*structpb.Value_StringValue); ok {
		return terminal.OneLine(text.StringValue)
	}
	text, _ := json.Marshal(v.AsInterface()) // text is empty if v contains a number that JSON can't represent, such as NaN
	return terminal.OneLine(string(text))
}

func allowedText(f *easelv1.InputField) string {
	var values []string
	for _, v := range f.AllowedValues {
		values = append(values, valueText(v))
	}
	if len(values) > 0 {
		return strings.Join(values, " ")
	}
	if f.Minimum != nil {
		values = append(values, fmt.Sprintf("from %v", f.GetMinimum()))
	}
	if f.Maximum != nil && f.GetMaximum() < 1<<53 { // a maximum of 2^53 or more is no limit in practice
		values = append(values, fmt.Sprintf("to %v", f.GetMaximum()))
	}
	return strings.Join(values, " ")
}

type quoteCmd struct {
	callFlags
	inputFlags
}

// Run prints the price of a render.
func (c *quoteCmd) Run(ctx context.Context, s *session) error {
	inputs, err := c.inputsJSON(ctx, s)
	if err != nil {
		return err
	}
	quote, err := s.Quote(ctx, easel.Order{Model: c.Model, InputsJSON: inputs})
	if err != nil {
		return err
	}
	q, balance := quote.Raw, ""
	if q.BalanceCents != nil {
		balance = Money(q.GetBalanceCents(), q.CurrencyCode)
	}
	return s.printResult(q, strconv.FormatInt(q.PriceCents, 10), func() {
		s.Fields([][2]string{{"price", Money(q.PriceCents, q.CurrencyCode)}, {"balance", balance}})
	})
}
