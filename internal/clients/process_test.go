package clients

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"
)

// process is one run of the program or of an example.
type process struct {
	command *exec.Cmd
	gone    chan struct{} // closed when it has ended

	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced when there is more
}

// begin starts a program at the top of the repository, with an environment of its own. It is killed where the test ends first.
func begin(t *testing.T, env []string, words ...string) *process {
	t.Helper()
	p := &process{gone: make(chan struct{}), changed: make(chan struct{})}
	p.command = exec.CommandContext(context.WithoutCancel(t.Context()), words[0], words[1:]...)
	p.command.Dir = root
	p.command.Env, p.command.Stdout, p.command.Stderr = env, p, p
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait() // how it ended is in ProcessState
		close(p.gone)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process by SIGKILL and returns when it is gone.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it may have ended already
	<-p.gone
}

// Write takes output in.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
	return p.text.Write(b)
}

func (p *process) output() (text string, more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String(), p.changed
}

// shown is how long the output is.
func (p *process) shown() int {
	text, _ := p.output()
	return len(text)
}

// await gives the last group of a pattern in what is written after a mark, as soon as it is there.
func (p *process) await(mark int, pattern string, limit time.Duration) (string, error) {
	expression, late := regexp.MustCompile(pattern), time.After(limit)
	for {
		text, more := p.output()
		if match := expression.FindStringSubmatch(text[mark:]); match != nil {
			return match[len(match)-1], nil
		}
		select {
		case <-more:
		case <-p.gone:
			if text, _ := p.output(); expression.MatchString(text[mark:]) {
				continue
			}
			return "", fmt.Errorf("it ended without %q:\n%s", pattern, text)
		case <-late:
			return "", fmt.Errorf("no %q in %v:\n%s", pattern, limit, text)
		}
	}
}

// ends gives the exit code of a process that is about to end.
func (p *process) ends(limit time.Duration) (int, error) {
	select {
	case <-p.gone:
		return p.command.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		text, _ := p.output()
		return 0, fmt.Errorf("it has not ended in %v:\n%s", limit, text)
	}
}
