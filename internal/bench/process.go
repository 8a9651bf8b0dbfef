package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// startLimit is how long a process may take until it listens.
const startLimit = 20 * time.Second

// process is a server under measurement, or a part of the load.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer         // a role of this program ends when it is closed
	logs   string            // what the process wrote to its standard error
	addrs  map[string]string // by the name of the listener
	exited chan struct{}
}

// startProcess runs a program until stop, and waits for its listeners. It logs to a file, so that
// reading the log costs nobody anything.
func (b *bench) startProcess(ctx context.Context, listeners int, env []string, name string, args ...string) (*process, error) {
	logs, err := os.CreateTemp(b.dir, filepath.Base(name)+"-*.log")
	if err != nil {
		return nil, err
	}
	defer logs.Close()
	p := &process{cmd: exec.Command(name, args...), logs: logs.Name(), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = logs
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	if err := p.await(ctx, listeners); err != nil {
		p.stop()
		text, _ := os.ReadFile(p.logs)
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text[max(0, len(text)-2000):])
	}
	return p, nil
}

// await waits until the process has told all its addresses.
func (p *process) await(ctx context.Context, listeners int) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for p.addrs = p.listening(); len(p.addrs) < listeners; p.addrs = p.listening() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.exited:
			return errors.New("it ended")
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// listening reads the addresses out of the log, which has a line of JSON for each.
func (p *process) listening() map[string]string {
	addrs := map[string]string{}
	text, _ := os.ReadFile(p.logs)
	for line := range bytes.Lines(text) {
		var told struct{ Msg, Server, Addr string }
		if json.Unmarshal(line, &told) == nil && told.Msg == "listening" {
			addrs[told.Server] = told.Addr
		}
	}
	return addrs
}

// stop ends the process at once: nothing of it is needed any more.
func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// cpu is what the process has used in user and system mode, in seconds, to 10 ms.
func (p *process) cpu(context.Context) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before may hold anything
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("the process has no times")
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, err
}

// resident is the memory of the process as the kernel has it, in bytes.
func (p *process) resident() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	kilobytes, failed := numberAfter(string(status), "\nVmRSS:")
	return kilobytes * 1024, errors.Join(err, failed)
}

// collected is the resident memory after two collections of garbage.
func (p *process) collected(ctx context.Context) (float64, error) {
	if _, err := p.live(ctx); err != nil {
		return 0, err
	}
	return p.resident()
}

// live is the memory in use after two collections of garbage: heap and stacks.
func (p *process) live(ctx context.Context) (float64, error) {
	heap, err := p.reading(ctx, "HeapAlloc")
	if err == nil {
		heap, err = p.reading(ctx, "HeapAlloc")
	}
	if err != nil {
		return 0, err
	}
	stacks, err := p.reading(ctx, "Stack")
	return heap + stacks, err
}

// allocations is how many objects the process has allocated.
func (p *process) allocations(ctx context.Context) (float64, error) { return p.reading(ctx, "Mallocs") }

// reading is what the Go runtime of the process says of its memory, after a collection.
func (p *process) reading(ctx context.Context, name string) (float64, error) {
	body, err := request(ctx, http.MethodGet, "http://"+p.addrs["admin"]+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	return numberAfter(string(body), "\n# "+name+" = ")
}

func numberAfter(text, label string) (float64, error) {
	_, rest, _ := strings.Cut(text, label)
	return strconv.ParseFloat(strings.Fields(rest + " -")[0], 64)
}

// request gives the body of an answer.
func request(ctx context.Context, method, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, response.Status, body)
	}
	return body, err
}
