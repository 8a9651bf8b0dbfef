package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type modelsCmd struct{ questionFlags }

// Run lists the models, all pages of them.
func (c *modelsCmd) Run(ctx context.Context, s *session) error {
	all, err := s.allModels(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, m := range all.Models {
		ids = append(ids, terminal.OneLine(m.ModelId))
	}
	return s.answer(all, strings.Join(ids, "\n"), func() { s.printModels(all.Models) })
}

func (s *session) allModels(ctx context.Context) (*easelv1.ListModelsResponse, error) {
	all, page := &easelv1.ListModelsResponse{}, ""
	for {
		answer, err := s.Catalog.ListModels(ctx, &easelv1.ListModelsRequest{PageToken: page})
		if err != nil {
			return nil, err
		}
		all.Models = append(all.Models, answer.Models...)
		if page = answer.NextPageToken; page == "" {
			return all, nil
		}
	}
}

func (s *session) printModels(models []*easelv1.Model) {
	var rows [][]terminal.Cell
	for _, m := range models {
		row := terminal.Cells(m.ModelId, outputWord(m.OutputKind), m.DisplayName, m.Description)
		row[0].Colour = terminal.Bold
		rows = append(rows, row)
	}
	s.Table([]string{"MODEL", "MAKES", "NAME", "DESCRIPTION"}, rows)
}

// outputWord is what a model makes.
func outputWord(kind easelv1.OutputKind) string {
	return map[easelv1.OutputKind]string{easelv1.OutputKind_OUTPUT_KIND_FILE: "file", easelv1.OutputKind_OUTPUT_KIND_TEXT: "text"}[kind]
}

type modelCmd struct {
	questionFlags
	Model string `arg:"" help:"The model, as easel models lists it."`
}

// Run shows one model and its inputs.
func (c *modelCmd) Run(ctx context.Context, s *session) error {
	answer, err := s.Catalog.GetModel(ctx, &easelv1.GetModelRequest{ModelId: c.Model})
	if err != nil {
		return err
	}
	m := answer.Model
	return s.answer(m, terminal.OneLine(m.ModelId), func() {
		s.Fields([][2]string{
			{"model", terminal.OneLine(m.ModelId)},
			{"name", terminal.OneLine(m.DisplayName)},
			{"makes", outputWord(m.OutputKind)},
			{"about", terminal.OneLine(m.Description)},
		})
		s.printInputs(m.InputFields)
	})
}

func (s *session) printInputs(fields []*easelv1.InputField) {
	if len(fields) == 0 {
		s.PrintText("\nThe catalog does not describe its inputs.")
		return
	}
	s.Print("")
	var rows [][]terminal.Cell
	for _, f := range fields {
		row := terminal.Cells(f.Name, inputWord(f), valueText(f.DefaultValue), allowedText(f), f.Description)
		row[0].Colour = terminal.Bold
		rows = append(rows, row)
	}
	s.Table([]string{"INPUT", "TYPE", "DEFAULT", "ALLOWED", "DESCRIPTION"}, rows)
}

func inputWord(f *easelv1.InputField) string {
	word := ""
	if f.Type != easelv1.InputFieldType_INPUT_FIELD_TYPE_UNSPECIFIED {
		word = strings.ToLower(strings.TrimPrefix(f.Type.String(), "INPUT_FIELD_TYPE_"))
	}
	if f.GetRequired() {
		word = strings.TrimPrefix(word+", required", ", ")
	}
	return word
}

// valueText writes a value as it would stand on the command line.
func valueText(v *structpb.Value) string {
	if v == nil {
		return ""
	}
	if text, ok := v.Kind.(*structpb.Value_StringValue); ok {
		return terminal.OneLine(text.StringValue)
	}
	text, err := json.Marshal(v.AsInterface())
	if err != nil {
		return ""
	}
	return terminal.OneLine(string(text))
}

func allowedText(f *easelv1.InputField) string {
	if len(f.AllowedValues) > 0 {
		return strings.Join(allowedWords(f), " ")
	}
	from, to := "", ""
	if f.Minimum != nil {
		from = fmt.Sprintf("from %v ", f.GetMinimum())
	}
	if f.Maximum != nil && f.GetMaximum() < 1<<53 { // one that is as large as an integer can be says nothing to a person
		to = fmt.Sprintf("to %v", f.GetMaximum())
	}
	return strings.TrimSuffix(from+to, " ")
}

// allowedWords are the values that an input may have, where they are listed.
func allowedWords(f *easelv1.InputField) (values []string) {
	for _, v := range f.AllowedValues {
		values = append(values, valueText(v))
	}
	return values
}

type quoteCmd struct {
	questionFlags
	inputFlags
}

// Run prices inputs.
func (c *quoteCmd) Run(ctx context.Context, s *session) error {
	inputs, err := c.text(ctx, s)
	if err != nil {
		return err
	}
	answer, err := s.Generations.QuoteGeneration(ctx, &easelv1.QuoteGenerationRequest{ModelId: c.Model, InputsJson: inputs})
	if err != nil {
		return err
	}
	q := answer.Quote
	return s.answer(q, strconv.FormatInt(q.PriceCents, 10), func() {
		fields := [][2]string{{"price", Money(q.PriceCents, q.CurrencyCode)}}
		if q.BalanceCents != nil {
			fields = append(fields, [2]string{"balance", Money(q.GetBalanceCents(), q.CurrencyCode)})
		}
		if q.Affordable != nil && !q.GetAffordable() {
			fields = append(fields, [2]string{"missing", Money(q.PriceCents-q.GetBalanceCents(), q.CurrencyCode)})
		}
		s.Fields(fields)
	})
}
