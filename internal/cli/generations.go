package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type getCmd struct {
	callFlags
	Fresh bool   `help:"Read the catalog, even if the server has a recent state."`
	ID    string `arg:"" name:"id" help:"The render."`
}

// Run shows one generation.
func (c *getCmd) Run(ctx context.Context, s *session) error {
	request := &easelv1.GetGenerationRequest{GenerationId: c.ID}
	if c.Fresh {
		request.MaxStaleness = &durationpb.Duration{}
	}
	answer, err := s.Generations.GetGeneration(ctx, request)
	if err != nil {
		return err
	}
	s.printGeneration(answer.Generation, stateWord(answer.Generation))
	return nil
}

// printGeneration shows a generation with all of its fields.
func (s *session) printGeneration(g *easelv1.Generation, brief string) {
	_ = s.answer(g, brief, func() { // session.Err has its error
		s.Fields(generationFields(g, s.OutStyle))
		if g.GetText() != nil {
			s.PrintText("\n" + terminal.SanitizeText(g.GetText().Text))
		}
	})
}

func generationFields(g *easelv1.Generation, look terminal.Style) [][2]string {
	cost, inputs, result := costText(g), "", ""
	if g.State == easelv1.State_STATE_SUCCEEDED {
		result = resultSummary(g)
	}
	if cost != "" && g.State == easelv1.State_STATE_REFUNDED {
		cost += ", refunded"
	}
	if g.Inputs != nil {
		text, _ := protojson.Marshal(g.Inputs) // cannot fail for a Struct that was received
		inputs = terminal.OneLine(string(text))
	}
	state := look.Paint(stateColour(g.State), stateWord(g))
	if g.State == easelv1.State_STATE_UNRECOGNIZED {
		state += " (" + terminal.OneLine(g.UpstreamStatus) + ")"
	}
	return [][2]string{
		{"render", terminal.OneLine(g.GenerationId)},
		{"owner", terminal.OneLine(g.Owner)},
		{"caller", terminal.OneLine(g.Caller)},
		{"labels", labelsText(g.Labels)},
		{"model", terminal.OneLine(g.ModelId)},
		{"state", joinNonEmpty(state, look.Paint(terminal.Yellow, ageText(g, time.Now())))},
		{"reason", terminal.OneLine(g.FailureMessage)},
		{"cost", cost},
		{"inputs", inputs},
		{"ordered", formatTime(g.CreateTime)},
		{"finished", joinNonEmpty(formatTime(g.TerminalTime), afterText(g))},
		{"result", result},
	}
}

type listCmd struct {
	callFlags
	filterFlags
	Limit int      `default:"20" placeholder:"N" help:"Maximum number of renders to show (0 for all)."`
	State []string `placeholder:"STATE" enum:"queued,running,succeeded,failed,refunded,deleted,unrecognized" help:"Only renders in this state: ${enum}. Separate several states with commas. Deleted renders are shown only with the state deleted."`
}

// filter returns the filter of the list, nil for every render.
func (c *listCmd) filter() *easelv1.GenerationFilter {
	if c.isZero() && len(c.State) == 0 {
		return nil
	}
	f := &easelv1.GenerationFilter{ModelId: c.Model, Owner: c.Owner, Labels: c.Label}
	for _, word := range c.State {
		f.States = append(f.States, easelv1.State(easelv1.State_value["STATE_"+strings.ToUpper(word)]))
	}
	return f
}

// Run lists the recent generations.
func (c *listCmd) Run(ctx context.Context, s *session) error {
	all, err := s.recent(ctx, c.filter(), c.Limit)
	if err != nil {
		return err
	}
	switch {
	case s.json:
		s.printJSON(all)
	case s.quiet:
		for _, g := range all.Generations {
			s.Print(terminal.OneLine(g.GenerationId))
		}
	case len(all.Generations) == 0:
		s.Note("There are no such renders.")
	default:
		s.printGenerations(all.Generations)
	}
	return nil
}

// recent reads pages until there are enough generations or the last page is read. The response has the token of the next page.
func (s *session) recent(ctx context.Context, filter *easelv1.GenerationFilter, limit int) (*easelv1.ListGenerationsResponse, error) {
	all := &easelv1.ListGenerationsResponse{}
	for {
		request := &easelv1.ListGenerationsRequest{PageToken: all.NextPageToken, Filter: filter}
		if limit > 0 {
			request.PageSize = int32(min(limit-len(all.Generations), 1000)) // the maximum of a page
		}
		answer, err := s.Generations.ListGenerations(ctx, request)
		if err != nil {
			return nil, err
		}
		all.Generations = append(all.Generations, answer.Generations...)
		all.NextPageToken = answer.NextPageToken
		if all.NextPageToken == "" || limit > 0 && len(all.Generations) >= limit {
			return all, nil
		}
	}
}

func (s *session) printGenerations(generations []*easelv1.Generation) {
	several := slices.ContainsFunc(generations, func(g *easelv1.Generation) bool { return g.Owner != generations[0].Owner })
	var rows [][]terminal.Cell
	for _, g := range generations {
		owner := "" // a single owner is not worth a column
		if several {
			owner = g.Owner
		}
		row := terminal.Cells(g.GenerationId, stateWord(g), costText(g), g.ModelId, owner, formatTime(g.CreateTime), resultSummary(g))
		row[0].Colour, row[1].Colour, row[6].Colour = terminal.Bold, stateColour(g.State), terminal.Dim
		rows = append(rows, row)
	}
	s.Table([]string{"RENDER", "STATE", "COST", "MODEL", "OWNER", "ORDERED", "RESULT"}, rows)
}

type deleteCmd struct {
	callFlags
	ID           string `arg:"" name:"id" help:"The render."`
	Force        bool   `help:"Delete it even if it is not finished. Its price may not be refunded."`
	AllowMissing bool   `help:"Do not fail if it does not exist."`
}

// Run deletes one generation.
func (c *deleteCmd) Run(ctx context.Context, s *session) error {
	answer, err := s.Generations.DeleteGeneration(ctx, &easelv1.DeleteGenerationRequest{
		GenerationId: c.ID, AllowMissing: c.AllowMissing, Force: c.Force,
	})
	if err != nil {
		return err
	}
	done := "deleted " + terminal.OneLine(c.ID)
	if c.AllowMissing { // the response is the same whether it existed or not
		done = terminal.OneLine(c.ID) + " is not in the catalog"
	}
	return s.answer(answer, terminal.OneLine(c.ID), func() { s.Print(done) })
}
