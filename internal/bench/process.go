package main

import (
	"bufio"
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
	took   time.Duration     // from the start until all listened
	exited chan struct{}
}

// start runs a program until stop, and waits for its listeners. It logs to a file, so that
// reading the log costs nobody anything.
func (b *bench) start(ctx context.Context, listeners []string, env []string, name string, args ...string) (*process, error) {
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
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	if err := p.await(ctx, listeners); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	p.took = time.Since(begin)
	return p, nil
}

// await waits until the process has told all its addresses.
func (p *process) await(ctx context.Context, listeners []string) error {
	deadline := time.Now().Add(startLimit)
	for {
		p.addrs = p.listening()
		missing := false
		for _, name := range listeners {
			missing = missing || p.addrs[name] == ""
		}
		if !missing {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.exited:
			return fmt.Errorf("it ended: %s", p.tail())
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not listen: %s", p.tail())
		}
	}
}

// listening reads the addresses out of the log: a line of JSON each.
func (p *process) listening() map[string]string {
	found := map[string]string{}
	text, err := os.ReadFile(p.logs)
	if err != nil {
		return found
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var line struct{ Msg, Server, Addr string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			found[line.Server] = line.Addr
		}
	}
	return found
}

func (p *process) tail() string {
	text, _ := os.ReadFile(p.logs)
	return string(text[max(0, len(text)-2000):])
}

// stop ends the process at once: nothing of it is needed any more.
func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// cpu is what the process has used, in user and system mode, to 10 ms.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before may hold anything
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("the process has no times")
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, err
}

// memory reads a line of /proc/PID/status, in bytes: VmRSS is what is resident, VmHWM the
// most that was.
func (p *process) memory(line string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for _, l := range strings.Split(string(status), "\n") {
		if value, ok := strings.CutPrefix(l, line+":"); ok {
			kilobytes, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kilobytes * 1024, err
		}
	}
	return 0, fmt.Errorf("no %s", line)
}

// forgetPeak makes VmHWM begin anew.
func (p *process) forgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0)
}

// collect has the process collect garbage twice, and gives its live heap.
func (p *process) collect(ctx context.Context) (heap float64, err error) {
	for range 2 {
		if heap, err = p.counted(ctx, "HeapAlloc"); err != nil {
			return 0, err
		}
	}
	return heap, nil
}

// counted is what the runtime of the process says of its memory, after a collection.
func (p *process) counted(ctx context.Context, name string) (float64, error) {
	body, err := get(ctx, "http://"+p.addrs["admin"]+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(body), "\n") {
		if value, ok := strings.CutPrefix(line, "# "+name+" = "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the runtime does not tell its %s", name)
}

// resident is the memory of the process after two collections.
func (p *process) resident(ctx context.Context) (float64, error) {
	if _, err := p.collect(ctx); err != nil {
		return 0, err
	}
	return p.memory("VmRSS")
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
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
		err = fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
	}
	return body, err
}
