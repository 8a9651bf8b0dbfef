//go:build unix

package torture

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programDir is the directory of the program, which is built once for all tests.
var programDir string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "easel-torture-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// program builds the program as make does, without the race detector, because this is the released
// program.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programDir, "easel")
	out, err := exec.Command("go", "build", "-o", path, "github.com/easel-grpc/easel/cmd/easel").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, err
})

// process is one run of the program.
type process struct {
	command *exec.Cmd
	output  *output
	found   []string      // the addresses in its output
	gone    chan struct{} // closed when it has ended

	mu     sync.Mutex
	killed bool
	doom   *doom // nil while it is to live
}

// doom is the point at which a process is to die.
type doom struct {
	at   point
	skip int // how often the point passes before
}

// run starts the program and waits until its output shows all patterns. Its environment is
// what is given and nothing else.
func run(ctx context.Context, patterns []*regexp.Regexp, env []string, args ...string) (*process, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	return launch(ctx, path, patterns, env, args...)
}

// launch starts any program, like run.
func launch(ctx context.Context, path string, patterns []*regexp.Regexp, env []string, args ...string) (*process, error) {
	p := &process{output: &output{written: make(chan struct{}, 1)}, gone: make(chan struct{})}
	p.command = exec.CommandContext(ctx, path, args...)
	p.command.Env = append([]string{}, env...)
	p.command.Stdout, p.command.Stderr = p.output, p.output
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.command.Wait() // the exit status does not matter: the killer or the output has the reason
		close(p.gone)
	}()
	limit := time.After(30 * time.Second)
	for {
		if p.found = p.output.find(patterns); p.found != nil {
			return p, nil
		}
		select {
		case <-p.output.written:
		case <-p.gone:
			return nil, fmt.Errorf("%v ended before it was ready\n%s", args, p.output.tail())
		case <-limit:
			p.kill()
			return nil, fmt.Errorf("%v was not ready\n%s", args, p.output.tail())
		}
	}
}

// kill sends SIGKILL and returns when the process has exited.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	_ = p.command.Process.Kill() // it may have ended already
	<-p.gone
}

// standStill stops the process for a while.
func (p *process) standStill(d time.Duration) {
	_ = p.command.Process.Signal(syscall.SIGSTOP) // it may have ended
	select {
	case <-time.After(d):
	case <-p.gone:
	}
	_ = p.command.Process.Signal(syscall.SIGCONT)
}

// wasKilled reports whether the end of the process is our doing.
func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// condemn schedules the death of the process at a point, after it has passed the point skip times.
func (p *process) condemn(at point, skip int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doom = &doom{at, skip}
}

// passesLeft returns the number of passes of the point before the process dies, zero if it is not condemned.
func (p *process) passesLeft() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doom == nil {
		return 0
	}
	return p.doom.skip
}

// pardon cancels the doom of the process.
func (p *process) pardon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doom = nil
}

// diesAt reports whether the process is to die at this point. It returns true to only one caller,
// which kills the process.
func (p *process) diesAt(at point) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doom == nil || p.doom.at != at {
		return false
	}
	if p.doom.skip--; p.doom.skip >= 0 {
		return false
	}
	p.doom = nil
	return true
}

// output is the output of a process.
type output struct {
	written chan struct{} // holds a token when there is more

	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.written <- struct{}{}:
	default:
	}
	return o.text.Write(b)
}

// find returns the first group of each pattern, or nil if a pattern does not match yet.
func (o *output) find(patterns []*regexp.Regexp) (found []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, pattern := range patterns {
		match := pattern.FindSubmatch(o.text.Bytes())
		if match == nil {
			return nil
		}
		found = append(found, string(match[1]))
	}
	return found
}

// tail returns the end of the output, for failure messages.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.text.Bytes()
	return string(text[max(0, len(text)-4096):])
}
