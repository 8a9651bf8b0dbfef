package main

import (
	"context"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

type downloadCmd struct {
	callFlags
	ID    string        `arg:"" name:"id" help:"The render."`
	Out   string        `placeholder:"FILE|DIR|-" help:"Where to write it; - is standard output. Without it the file gets a name from the server, here."`
	Force bool          `help:"Overwrite a file."`
	Wait  time.Duration `placeholder:"TIME" help:"How long to wait for a render that is not finished, up to 10m."`
}

func (c *downloadCmd) faults() []string { return c.faultsOfOut(c.Out) }

// Run writes the result to a file. Run again after an interruption, it goes on where it
// was.
func (c *downloadCmd) Run(ctx context.Context, p *program) error {
	return c.call(ctx, p, unlimited, func(ctx context.Context, s *session) error {
		d := &fetching{id: c.ID, out: c.Out, force: c.Force, wait: c.Wait}
		if c.Out == standardOutput {
			return noFile(s.fetchOut(ctx, d), c.ID)
		}
		path, err := s.fetch(ctx, d)
		if err != nil {
			return noFile(err, c.ID)
		}
		done := &easelv1.ContentSummary{SizeBytes: d.part.size, Sha256: d.part.sha256()}
		switch {
		case s.json:
			s.printDownload(path, d.info, done)
		case s.quiet:
			s.print(path)
		default:
			s.printFields([][2]string{
				{"file", path},
				{"type", oneLine(d.info.ContentType)},
				{"size", size(done.SizeBytes)},
				{"sha256", done.Sha256},
			})
		}
		return nil
	})
}

func (s *session) printDownload(path string, info *easelv1.ContentInfo, done *easelv1.ContentSummary) {
	writeJSONLine(s.out, struct {
		Path        string `json:"path"`
		ContentType string `json:"contentType"`
		SizeBytes   int64  `json:"sizeBytes"`
		SHA256      string `json:"sha256"`
	}{path, info.ContentType, done.SizeBytes, done.Sha256})
}

// noFile explains that a render has no file because its result is a text.
func noFile(err error, id string) error {
	st, ok := statusOf(err)
	if !ok {
		return err
	}
	var f failure
	f.addDetails(st)
	state := f.metadata["state"]
	if f.reason != "NO_CONTENT" || state != "" && state != easelv1.State_STATE_SUCCEEDED.String() {
		return err
	}
	return &problem{
		exit: exitFailure, text: "the result of " + oneLine(id) + " is a text, and no file", err: err, render: id,
		cure: "It is shown by: easel get " + id,
	}
}
