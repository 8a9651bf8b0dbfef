// Command easel is the complete product in one binary: the facade (serve), test catalogs (sandbox, dev, demo), and a client
// for every call of the contract.
//
// This package has the flags and settings of the servers, and wires them. No other package knows all parts. The client
// commands and the parsing of every command line are in package cli.
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
	// The standard library logs unexpected data from a catalog, which may contain a key. Easel itself does not use this
	// logger.
	log.SetOutput(io.Discard)
	os.Exit(untilSignalled())
}

// untilSignalled runs the command with a context that the first signal cancels. The second signal has no handler and kills the
// process, in case the shutdown takes too long.
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
