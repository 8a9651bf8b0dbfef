package cli

import (
	"context"

	"google.golang.org/protobuf/encoding/protojson"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type getCmd struct {
	callFlags
	Fresh bool   `help:"Read the catalog, even where the server knows a recent state."`
	ID    string `arg:"" name:"id" help:"The render."`
}

// Help implements kong.HelpProvider.
func (*getCmd) Help() string {
	return `Examples:

  easel get gen_1
  easel get gen_1 --fresh -o json
`
}

// Run shows one generation.
func (c *getCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, questionLimit, func(ctx context.Context, s *session) error {
		request := &easelv1.GetGenerationRequest{GenerationId: c.ID}
		if c.Fresh {
			request.MaxStaleness = span(0)
		}
		answer, err := s.generations.GetGeneration(ctx, request)
		if err != nil {
			return err
		}
		s.printGeneration(answer.Generation, stateWord(answer.Generation))
		return nil
	})
}

// printGeneration shows all of a generation that a person asks for.
func (s *session) printGeneration(g *easelv1.Generation, brief string) {
	s.answer(g, brief, func() {
		s.printFields(generationFields(g, s.OutStyle))
		if g.GetText() != nil {
			s.PrintText("\n" + terminal.SanitizeText(g.GetText().Text))
		}
	})
}

func generationFields(g *easelv1.Generation, look terminal.Style) [][2]string {
	cost, inputs := costText(g), ""
	if cost != "" && g.State == easelv1.State_STATE_REFUNDED {
		cost += ", given back"
	}
	if g.Inputs != nil {
		text, _ := protojson.Marshal(g.Inputs) // a Struct that came over the wire can be written
		inputs = terminal.OneLine(string(text))
	}
	state := look.Paint(stateColour(g.State), stateWord(g))
	if g.State == easelv1.State_STATE_UNRECOGNIZED {
		state += " (" + terminal.OneLine(g.UpstreamStatus) + ")"
	}
	return [][2]string{
		{"render", terminal.OneLine(g.GenerationId)},
		{"model", terminal.OneLine(g.ModelId)},
		{"state", state},
		{"reason", terminal.OneLine(g.FailureMessage)},
		{"cost", cost},
		{"inputs", inputs},
		{"ordered", formatTime(g.CreateTime)},
		{"finished", joinNonEmpty(formatTime(g.TerminalTime), afterText(g))},
		{"result", resultText(g)},
	}
}

func resultText(g *easelv1.Generation) string {
	if g.State == easelv1.State_STATE_SUCCEEDED {
		return resultSummary(g)
	}
	return ""
}

type listCmd struct {
	callFlags
	Limit int `default:"20" placeholder:"N" help:"Most renders to show; 0 shows all."`
}

// Help implements kong.HelpProvider.
func (*listCmd) Help() string {
	return `Examples:

  easel list --limit 5
  easel list -q | xargs easel watch
`
}

// Run lists the recent generations.
func (c *listCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, questionLimit, func(ctx context.Context, s *session) error {
		all, err := s.recent(ctx, c.Limit)
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
			s.Tell("There are no renders yet.")
		default:
			s.printGenerations(all.Generations)
		}
		return nil
	})
}

// longestPage is the most that a server gives in one answer.
const longestPage = 1000

// recent reads pages until there are enough generations or no more. Its token is that of the
// page that follows: never more is asked for than is wanted.
func (s *session) recent(ctx context.Context, limit int) (*easelv1.ListGenerationsResponse, error) {
	all := &easelv1.ListGenerationsResponse{}
	for {
		request := &easelv1.ListGenerationsRequest{PageToken: all.NextPageToken}
		if limit > 0 {
			request.PageSize = int32(min(limit-len(all.Generations), longestPage))
		}
		answer, err := s.generations.ListGenerations(ctx, request)
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
	var rows [][]cell
	for _, g := range generations {
		rows = append(rows, []cell{
			{terminal.OneLine(g.GenerationId), terminal.Bold},
			{stateWord(g), stateColour(g.State)},
			{terminal.OneLine(g.ModelId), ""},
			{costText(g), ""},
			{formatTime(g.CreateTime), ""},
			{resultSummary(g), terminal.Dim},
		})
	}
	s.printTable([]string{"RENDER", "STATE", "MODEL", "COST", "ORDERED", "RESULT"}, rows)
}

type deleteCmd struct {
	callFlags
	ID           string `arg:"" name:"id" help:"The render."`
	Force        bool   `help:"Delete it even where it is not finished. Its price may not come back."`
	AllowMissing bool   `help:"Do not fail where it is not there."`
}

// Help implements kong.HelpProvider.
func (*deleteCmd) Help() string {
	return `Examples:

  easel delete gen_1
`
}

// Run deletes one generation.
func (c *deleteCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, questionLimit, func(ctx context.Context, s *session) error {
		answer, err := s.generations.DeleteGeneration(ctx, &easelv1.DeleteGenerationRequest{
			GenerationId: c.ID, AllowMissing: c.AllowMissing, Force: c.Force,
		})
		if err != nil {
			return err
		}
		done := "deleted " + terminal.OneLine(c.ID)
		if c.AllowMissing { // the answer does not tell whether it ever was there
			done = terminal.OneLine(c.ID) + " is not in the catalog"
		}
		s.answer(answer, terminal.OneLine(c.ID), func() { s.Print(done) })
		return nil
	})
}
