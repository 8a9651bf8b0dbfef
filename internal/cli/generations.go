package cli

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type getCmd struct {
	callFlags
	Fresh bool   `help:"Read the state from the catalog, even if the server has a recent state."`
	ID    string `arg:"" name:"id" help:"ID of the render."`
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

// printGeneration prints a generation in the format that the flags select. With --quiet, it prints only
// the string brief.
func (s *session) printGeneration(g *easelv1.Generation, brief string) {
	_ = s.printResult(g, brief, func() { // session.Err returns the write error later
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
		text, _ := protojson.Marshal(g.Inputs) // cannot fail, because a received Struct is valid
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
	State []string `placeholder:"STATE" enum:"queued,running,succeeded,failed,refunded,deleted,unrecognized" help:"Show only renders in this state: ${enum}. Separate several states with commas. Deleted renders are shown only if the states include deleted."`
}

// Run lists the recent generations.
func (c *listCmd) Run(ctx context.Context, s *session) error {
	filter := c.toFilter()
	for _, word := range c.State {
		filter.States = append(filter.States, easel.State(easelv1.State_value["STATE_"+strings.ToUpper(word)]))
	}
	all := &easelv1.ListGenerationsResponse{}
	var ids []string
	for render, err := range s.List(ctx, filter) {
		if err != nil {
			return err
		}
		all.Generations, ids = append(all.Generations, render.Raw), append(ids, terminal.OneLine(render.Raw.GenerationId))
		if len(ids) == c.Limit {
			break
		}
	}
	if len(ids) == 0 && !s.json {
		s.Note("No renders found.")
		return nil
	}
	return s.printResult(all, strings.Join(ids, "\n"), func() { s.printGenerations(all.Generations) })
}

func (s *session) printGenerations(generations []*easelv1.Generation) {
	var rows [][]terminal.Cell
	for _, g := range generations {
		row := terminal.Cells(g.GenerationId, stateWord(g), costText(g), g.ModelId, g.Owner, formatTime(g.CreateTime), resultSummary(g))
		row[0].Colour, row[1].Colour, row[6].Colour = terminal.Bold, stateColour(g.State), terminal.Dim
		rows = append(rows, row)
	}
	s.Table([]string{"RENDER", "STATE", "COST", "MODEL", "OWNER", "ORDERED", "RESULT"}, rows)
}

type deleteCmd struct {
	callFlags
	ID           string `arg:"" name:"id" help:"ID of the render."`
	Force        bool   `help:"Delete the render even if it is not finished, or may still be refunded. Its price might not be refunded."`
	AllowMissing bool   `help:"Do not fail if the render does not exist."`
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
	if c.AllowMissing { // the response is the same whether or not the render existed
		done = terminal.OneLine(c.ID) + " is not in the catalog"
	}
	return s.printResult(answer, terminal.OneLine(c.ID), func() { s.Print(done) })
}
