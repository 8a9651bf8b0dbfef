package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/telemetry"
	"github.com/easel-grpc/easel/internal/terminal"
)

// contentFlags contains the flag that specifies where copies of results are stored.
type contentFlags struct {
	ContentURL string `name:"content-url" group:"content" env:"EASEL_CONTENT_URL" placeholder:"URL" help:"Store for copies of results: file:DIR, or s3://BUCKET/PREFIX?endpoint=URL&region=NAME. Callers can then download results even if the catalog is unavailable or has deleted them. S3 credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from the file in AWS_SHARED_CREDENTIALS_FILE, or from the machine's role. A shared API key and a durable ledger are required. Default: results are not copied."`
}

func (c *serveCmd) contentFaults(list *cli.FaultList) {
	for _, host := range c.ContentHosts {
		list.AddError("EASEL_CONTENT_HOSTS", catalog.CheckContentHost(host))
	}
	if c.ContentURL == "" {
		return
	}
	if err := content.Check(c.ContentURL, c.UpstreamInsecure); err != nil {
		list.Add(err.Error())
	}
	list.Require(c.UpstreamKeyFile != "", "EASEL_CONTENT_URL needs EASEL_UPSTREAM_KEY_FILE: results are copied only with a shared API key")
	list.Require(ledger.IsDurable(c.LedgerURL), "EASEL_CONTENT_URL needs EASEL_LEDGER_URL=sqlite:FILE or postgres://…: the records of copies must outlive this process")
}

// openResults creates the reader for results. If EASEL_CONTENT_URL is set, it also opens the store of copies.
func (f *facade) openResults(ctx context.Context) (err error) {
	cfg := content.Config{Catalog: f.client, Ledger: f.ledger, SharedKey: f.sharedKey, Logger: f.logger}
	if f.ContentURL != "" {
		if cfg.Store, err = content.OpenStore(f.ContentURL, f.UpstreamInsecure); err == nil {
			cfg.Name, err = f.ledger.StoreName(ctx, rand.Text())
		}
		if err != nil {
			return wrongSetting("EASEL_CONTENT_URL", err)
		}
	}
	f.contents = content.New(cfg)
	return nil
}

// countsOf returns a function that reads the copy counters, or nil if results are not copied.
func countsOf(contents *content.Results) func() telemetry.CopyCounts {
	if !contents.Keeps() {
		return nil
	}
	return func() telemetry.CopyCounts {
		c := &contents.Counts
		return telemetry.CopyCounts{Copied: c.Copied.Load(), Failures: c.Failures.Load(), Bytes: c.Bytes.Load(), Reads: c.Reads.Load(), Rescued: c.Rescued.Load()}
	}
}

// contentCmd contains the operators' commands for copies of results.
type contentCmd struct {
	Verify contentVerifyCmd `cmd:"" help:"Compare the ledger with the store of copies, and print each difference."`
	Fetch  contentFetchCmd  `cmd:"" help:"Copy the result of a render again."`
	Adopt  contentAdoptCmd  `cmd:"" help:"Allow a restored ledger to delete copies that were made before it was restored."`
}

type contentFetchCmd struct {
	adminFlags
	Generation string `arg:"" name:"generation" help:"ID of the render."`
}

// Run requests a new copy of a render's result.
func (c *contentFetchCmd) Run(ctx context.Context, p *cli.Program) error {
	var fetched admin.FetchedContent
	if err := c.postJSON(ctx, p, "/contents:fetch", admin.ContentFetch{Generation: c.Generation}, &fetched); err != nil {
		return err
	}
	if fetched.State != ledger.ContentCopied.String() || fetched.Problem != "" {
		return &cli.Problem{Exit: cli.ExitRetry, Text: c.Generation + " is not copied: " + terminal.OneLine(cmp.Or(fetched.Problem, "the copy is not complete yet")), Cure: "The server retries automatically."}
	}
	return printResult(p, fmt.Sprintf("%s is copied: %d bytes of %s", c.Generation, fetched.SizeBytes, terminal.OneLine(cmp.Or(fetched.ContentType, "an unknown type"))))
}

type contentAdoptCmd struct{ adminFlags }

// Run allows servers to delete stored results from before the ledger was copied or restored.
func (c *contentAdoptCmd) Run(ctx context.Context, p *cli.Program) error {
	if err := c.postJSON(ctx, p, "/contents:adopt", struct{}{}, &struct{}{}); err != nil {
		return err
	}
	return printResult(p, "the copies from before the ledger's restoration are adopted; a server now deletes such a copy when its render is deleted")
}

type contentVerifyCmd struct {
	ledgerFlags
	contentFlags
	UpstreamInsecure bool `group:"upstream" env:"EASEL_UPSTREAM_INSECURE" help:"Allow http to a bucket on a host that is not loopback. The copies are then sent unencrypted."`

	Bytes bool `help:"Read each copy, and compare its SHA-256 with the value in the ledger."`
}

// Run compares the ledger with the store of copies, and prints each difference.
func (c *contentVerifyCmd) Run(ctx context.Context, p *cli.Program) error {
	console := p.Console()
	compared, err := c.compare(ctx, func(line string) { console.PrintText(terminal.Sanitize(line + "\n")) }, func(copies int64) {
		console.ShowLive(fmt.Sprintf("%d copies", copies))
	})
	console.ShowLive("")
	if err != nil {
		return toUsageProblem(err)
	}
	console.Print(fmt.Sprintf("%d copies of %d bytes, %d differences", compared.Copies, compared.Bytes, compared.Differences))
	if compared.Differences > 0 {
		return &cli.Problem{Exit: cli.ExitFailure, Text: "the store differs from the ledger", Cure: "easel content fetch copies a result again"}
	}
	return console.Err()
}

func (c *contentVerifyCmd) compare(ctx context.Context, report func(line string), done func(copies int64)) (v content.Verified, err error) {
	store, err := content.OpenStore(c.ContentURL, c.UpstreamInsecure)
	if err != nil {
		return v, err
	}
	led, err := ledger.OpenReadOnly(ctx, c.LedgerURL)
	if err != nil {
		return v, err
	}
	defer func() { _ = led.Close() }() // closing a ledger that was only read loses no data
	stores, err := led.Stores(ctx)
	if err != nil {
		return v, err
	}
	if len(stores.All()) == 0 {
		return v, errors.New("the ledger lists no copies of results; check --ledger-url here, and EASEL_CONTENT_URL on the servers")
	}
	return content.New(content.Config{Store: store, Ledger: led}).Verify(ctx, c.Bytes, report, done)
}
