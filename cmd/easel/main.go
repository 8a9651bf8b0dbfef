// Command easel is the whole product in one binary: the facade (serve), the catalog
// to try it against (sandbox, dev, demo), and a client for every call of the contract.
//
// This package holds the flags and settings of the servers and wires them up; it is the only one
// that knows all the others. The client commands, and how every command line is read, are package cli.
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
	// The standard library prints what a catalog sends unasked, and a key may stand in it. Nothing
	// of ours writes there.
	log.SetOutput(io.Discard)
	os.Exit(untilSignalled())
}

// untilSignalled runs the command with a context that the first signal ends. The second
// one finds no handler and ends the process, should the orderly way take too long.
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
