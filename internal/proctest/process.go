// Package proctest runs programs as processes of a test: easel as it ships, and what stands
// beside it.
package proctest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// Root is the top of the repository, seen from a package two directories below it. Processes
// start there.
var Root = filepath.Join("..", "..")

// startLimit is how long a process may take until it is ready, and until it is gone.
const startLimit = 30 * time.Second

// Process is one run of a program.
type Process struct {
	Stdout, Stderr, Output *Output // Output has both, as they came, and has it first

	command *exec.Cmd
	gone    chan struct{} // closed when it has ended
}

// Start starts a program, with an environment of its own. It is killed where the test ends first.
func Start(t testing.TB, env []string, words ...string) *Process {
	t.Helper()
	p := &Process{Stdout: NewOutput(), Stderr: NewOutput(), Output: NewOutput(), gone: make(chan struct{})}
	p.command = exec.CommandContext(context.WithoutCancel(t.Context()), words[0], words[1:]...)
	p.command.Dir, p.command.Env = Root, append([]string{}, env...)
	p.command.Stdout, p.command.Stderr = io.MultiWriter(p.Output, p.Stdout), io.MultiWriter(p.Output, p.Stderr)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait() // how it ended is in ProcessState
		close(p.gone)
	}()
	t.Cleanup(p.Kill)
	return p
}

// Ready waits until the output is as it must be before the test goes on.
func (p *Process) Ready(t testing.TB, ready func(stdout, stderr string) bool) {
	t.Helper()
	for late := time.After(startLimit); ; {
		stdout, moreOut := p.Stdout.read()
		stderr, moreErr := p.Stderr.read()
		if ready(stdout, stderr) {
			return
		}
		select {
		case <-moreOut:
		case <-moreErr:
		case <-p.gone:
			if ready(p.Stdout.String(), p.Stderr.String()) {
				return
			}
			t.Fatalf("ended before it was ready\n%s", p.Output)
		case <-late:
			t.Fatalf("not ready\n%s", p.Output)
		}
	}
}

// Await gives the last group of a pattern in what is written after a mark, as soon as it is there.
func (p *Process) Await(mark int, pattern string, limit time.Duration) (string, error) {
	expression, late := regexp.MustCompile(pattern), time.After(limit)
	for {
		text, more := p.Output.read()
		if match := expression.FindStringSubmatch(text[mark:]); match != nil {
			return match[len(match)-1], nil
		}
		select {
		case <-more:
		case <-p.gone:
			if expression.MatchString(p.Output.String()[mark:]) {
				continue
			}
			return "", fmt.Errorf("it ended without %q:\n%s", pattern, p.Output)
		case <-late:
			return "", fmt.Errorf("no %q in %v:\n%s", pattern, limit, p.Output)
		}
	}
}

// Wait gives the exit code of a process that is about to end.
func (p *Process) Wait(limit time.Duration) (int, error) {
	select {
	case <-p.gone:
		return p.command.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("it has not ended in %v:\n%s", limit, p.Output)
	}
}

// Pid is its id.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(signal os.Signal) error { return p.command.Process.Signal(signal) }

// Stop ends the process by SIGTERM, as it would be elsewhere, and gives its exit code.
func (p *Process) Stop() int {
	_ = p.Signal(syscall.SIGTERM) // it may have ended already
	code, err := p.Wait(startLimit)
	if err != nil {
		p.Kill()
		return -1
	}
	return code
}

// Kill ends the process by SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it may have ended already
	<-p.gone
}
