// Package proctest runs programs as processes for tests: the easel program, built as for a release, and the servers
// that it depends on.
package proctest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Root is the root directory of the repository, as a path relative to the working directory of tests. It is correct
// only in packages two levels below the root. Processes run in this directory.
var Root = filepath.Join("..", "..")

// startLimit is the maximum time for a process to become ready, and for a process to exit after SIGTERM.
const startLimit = 30 * time.Second

// Process is a process that a test has started.
type Process struct {
	Stdout, Stderr, Output *Output // Output contains both streams, in the order of the writes

	// The following fields are set by [TryLaunch].
	GRPC, HTTP, Admin string // addresses of the listeners; a sandbox has only HTTP
	Catalog           string // URL of a sandbox's catalog
	Key               string // API key that a sandbox has printed

	command *exec.Cmd
	exited  chan struct{} // closed when the process has exited
	killed  atomic.Bool
}

// Start starts the program words[0] with the arguments words[1:] and only the given environment variables. It kills the
// process at the end of the test.
func Start(t testing.TB, env []string, words ...string) *Process {
	t.Helper()
	p := &Process{Stdout: NewOutput(), Stderr: NewOutput(), Output: NewOutput(), exited: make(chan struct{})}
	p.command = exec.CommandContext(context.WithoutCancel(t.Context()), words[0], words[1:]...)
	p.command.Dir, p.command.Env = Root, append([]string{}, env...)
	p.command.Stdout, p.command.Stderr = io.MultiWriter(p.Output, p.Stdout), io.MultiWriter(p.Output, p.Stderr)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait() // the error is not needed, because ProcessState contains the exit code
		close(p.exited)
	}()
	t.Cleanup(func() { p.Kill() })
	return p
}

// Ready calls isReady with the output so far until isReady returns true. It fails the test if the process exits first,
// or if this takes longer than startLimit.
func (p *Process) Ready(t testing.TB, isReady func(stdout, stderr string) bool) {
	t.Helper()
	for late := time.After(startLimit); ; {
		stdout, moreOut := p.Stdout.read()
		stderr, moreErr := p.Stderr.read()
		if isReady(stdout, stderr) {
			return
		}
		select {
		case <-moreOut:
		case <-moreErr:
		case <-p.exited:
			if isReady(p.Stdout.String(), p.Stderr.String()) {
				return
			}
			t.Fatalf("process exited before it was ready:\n%s", p.Output)
		case <-late:
			t.Fatalf("process not ready in time:\n%s", p.Output)
		}
	}
}

// Await waits until a pattern matches the output, starting at the byte offset mark, and returns the text that matches
// the last group of the pattern. It returns an error if the process exits without a match, or if there is no match
// within limit.
func (p *Process) Await(mark int, pattern string, limit time.Duration) (string, error) {
	expression, late := regexp.MustCompile(pattern), time.After(limit)
	for {
		text, more := p.Output.read()
		if match := expression.FindStringSubmatch(text[mark:]); match != nil {
			return match[len(match)-1], nil
		}
		select {
		case <-more:
		case <-p.exited:
			if expression.MatchString(p.Output.String()[mark:]) {
				continue
			}
			return "", fmt.Errorf("process exited, and its output does not match %q:\n%s", pattern, p.Output)
		case <-late:
			return "", fmt.Errorf("no output matches %q after %v:\n%s", pattern, limit, p.Output)
		}
	}
}

// Wait waits for the process to exit, for at most limit, and returns its exit code.
func (p *Process) Wait(limit time.Duration) (int, error) {
	select {
	case <-p.exited:
		return p.command.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("process still running after %v:\n%s", limit, p.Output)
	}
}

// Exited returns a channel that is closed when the process has exited.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Pid returns the process's ID.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Signal sends a signal to the process.
func (p *Process) Signal(signal os.Signal) error { return p.command.Process.Signal(signal) }

// Stop sends SIGTERM, waits until the process has exited, and returns the exit code. If the process does not exit
// within startLimit, Stop kills it and returns -1.
func (p *Process) Stop() int {
	_ = p.Signal(syscall.SIGTERM) // the process may have exited
	code, err := p.Wait(startLimit)
	if err != nil {
		p.Kill()
		return -1
	}
	return code
}

// Kill sends SIGKILL and waits until the process has exited. It reports whether this was the first call to Kill.
func (p *Process) Kill() bool {
	first := !p.killed.Swap(true)
	_ = p.command.Process.Kill() // the process may have exited
	<-p.exited
	return first
}

// Killed reports whether [Process.Kill] was called.
func (p *Process) Killed() bool { return p.killed.Load() }
