// Command easel contains all of Easel: the facade (serve), test catalogs (sandbox, dev, demo), commands for operators, and
// client commands for the gRPC API.
//
// This package defines the servers' flags and settings, and connects the other packages. Package cli contains the client
// commands and parses all command lines.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/easel-grpc/easel/internal/cli"
)

func main() {
	// Package net/http logs unexpected data from a catalog with the default logger. The data may contain an API key, so the
	// output of the default logger is discarded. Easel's own code does not use this logger.
	log.SetOutput(io.Discard)
	os.Exit(untilSignalled())
}

// untilSignalled runs the command with a context that the first signal cancels, and returns the exit code. A second signal kills
// the process, in case the shutdown takes too long.
func untilSignalled() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return cli.Run(ctx, os.Args[1:], &cli.Program{
		Name:   os.Args[0],
		Stdin:  os.Stdin,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Lookup: os.LookupEnv, Environ: os.Environ,

		Grammar: grammar(), Build: thisBuild(),
	})
}
