package main

import (
	"context"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

type downloadCmd struct {
	callFlags
	ID    string        `arg:"" name:"id" help:"The render."`
	Out   string        `placeholder:"FILE|DIR" help:"Where to write it. Without it the file gets a name from the server, here."`
	Force bool          `help:"Overwrite a file."`
	Wait  time.Duration `placeholder:"TIME" help:"How long to wait for a render that is not finished, up to 10m."`
}

// Run writes the result to a file. Run again after an interruption, it goes on where it
// was.
func (c *downloadCmd) Run(ctx context.Context, p *program) error {
	return c.call(ctx, p, unlimited, func(ctx context.Context, s *session) error {
		d := &fetching{id: c.ID, out: c.Out, force: c.Force, wait: c.Wait}
		path, err := s.fetch(ctx, d)
		if err != nil {
			return err
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
