package main

import (
	"io"

	"github.com/alecthomas/kong"
)

const description = "Paid renders over gRPC: order once, watch instead of polling, get the bytes whole."

// commands is the grammar of the command line.
type commands struct {
	Demo    demoCmd    `cmd:"" group:"try" help:"Show all of it once: quote, order, watch, download. The picture lands in a file."`
	Dev     devCmd     `cmd:"" group:"try" help:"Run the facade over a catalog of its own, and print how to call it."`
	Sandbox sandboxCmd `cmd:"" group:"try" help:"Run the catalog alone, over HTTP."`
	Serve   serveCmd   `cmd:"" group:"run" help:"Run the facade in front of a catalog."`
	Health  healthCmd  `cmd:"" group:"run" help:"Ask a server whether it serves."`
	Doctor  doctorCmd  `cmd:"" group:"run" help:"Read a catalog without spending a cent, and say what could not be read and what would cure it."`

	Account  accountCmd  `cmd:"" group:"call" help:"Show the balance."`
	Models   modelsCmd   `cmd:"" group:"call" help:"List the models."`
	Model    modelCmd    `cmd:"" group:"call" help:"Show one model and the inputs that it takes."`
	Quote    quoteCmd    `cmd:"" group:"call" help:"Price a render. Starts and costs nothing."`
	Generate generateCmd `cmd:"" group:"call" help:"Order a render. Costs money, once."`
	Get      getCmd      `cmd:"" group:"call" help:"Show one render."`
	List     listCmd     `cmd:"" group:"call" help:"List the recent renders."`
	Wait     waitCmd     `cmd:"" group:"call" help:"Wait until a render is finished."`
	Watch    watchCmd    `cmd:"" group:"call" help:"Tell each change of renders as it comes."`
	Download downloadCmd `cmd:"" group:"call" help:"Write the result of a render to a file."`
	Delete   deleteCmd   `cmd:"" group:"call" help:"Delete a render and its result for good."`

	Profiles   profilesCmd   `cmd:"" group:"more" help:"List the servers and keys that a file keeps under a name."`
	Completion completionCmd `cmd:"" group:"more" help:"Print a script that makes bash, zsh or fish complete this command."`
	InputsOf   inputsOfCmd   `cmd:"" hidden:"" help:"Print the inputs of a model, for completion."`
	Version    versionCmd    `cmd:"" group:"more" help:"Show the version."`
	ExitCodes  exitCodesCmd  `cmd:"" group:"more" help:"Show what the exit codes mean."`
}

// groups are the headings of the help, in order.
func groups() []kong.Group {
	return []kong.Group{
		{Key: "try", Title: "Try it, with no key and no money:"},
		{Key: "run", Title: "Run it:"},
		{Key: "call", Title: "Call it:"},
		{Key: "more", Title: "More:"},
		{Key: "connection", Title: "Connection:"},
		{Key: "output", Title: "Output:"},
		{Key: "upstream", Title: "The catalog:"},
		{Key: "callers", Title: "Who may call:"},
		{Key: "listen", Title: "Addresses (port 0 takes a free one):"},
		{Key: "tls", Title: "TLS (files are read again when they change):"},
		{Key: "poll", Title: "Polling:"},
		{Key: "nats", Title: "Other replicas:"},
		{Key: "life", Title: "Streams and shutdown:"},
		{Key: "limits", Title: "Limits:"},
		{Key: "logs", Title: "Logs and traces:"},
	}
}

// printHelp prints the usual help, and below that of the whole program its exit codes.
func printHelp(options kong.HelpOptions, line *kong.Context) error {
	err := kong.DefaultHelpPrinter(options, line)
	if err == nil && line.Selected() == nil {
		_, err = io.WriteString(line.Stdout, "\n"+exitCodes)
	}
	return err
}

type exitCodesCmd struct{}

// Run prints the table.
func (exitCodesCmd) Run(p *program) error {
	_, err := io.WriteString(p.stdout, exitCodes)
	return err
}
