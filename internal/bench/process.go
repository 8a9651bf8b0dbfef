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
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// process is a measured server.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer         // standard input; closing this stops the program that Easel is compared with
	logs   string            // path of the file that receives the process's standard error
	addrs  map[string]string // addresses, keyed by listener name
	exited chan struct{}
}

// startProcess starts a program, and waits until it listens. The program logs to a file, so that reading the log does not
// affect the program.
func (b *bench) startProcess(ctx context.Context, env []string, name string, args ...string) (*process, error) {
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
	if err := p.awaitAddrs(ctx); err != nil {
		p.stop()
		text, _ := os.ReadFile(p.logs)
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text[max(0, len(text)-2000):])
	}
	return p, nil
}

// awaitAddrs waits until the process has logged its gRPC, REST and admin addresses. It returns an error after 20 seconds, or
// if the process exits.
func (p *process) awaitAddrs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for p.addrs = p.listenAddrs(); len(p.addrs) < 3; p.addrs = p.listenAddrs() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.exited:
			return errors.New("the process exited")
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// listenAddrs returns the addresses in the log, keyed by listener name. The log has a JSON line for each address.
func (p *process) listenAddrs() map[string]string {
	addrs := map[string]string{}
	text, _ := os.ReadFile(p.logs)
	for line := range bytes.Lines(text) {
		var entry struct{ Msg, Server, Addr string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
			addrs[entry.Server] = entry.Addr
		}
	}
	return addrs
}

// stop kills the process and waits until it has exited.
func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// cpuTime returns the user and system time of the process in seconds, with a resolution of 10 ms.
func (p *process) cpuTime(context.Context) (float64, error) {
	stat, err := p.stat()
	return stat.CPUTime(), err
}

// residentMemory returns the resident memory of the process, in bytes.
func (p *process) residentMemory() (float64, error) {
	stat, err := p.stat()
	return float64(stat.ResidentMemory()), err
}

func (p *process) stat() (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return proc.Stat()
}

// memoryInUse runs the garbage collector twice, and returns the memory of live objects and of stacks, in bytes. Resident
// memory would be less exact: it also contains garbage that was collected, and so depends on the times of collections.
func (p *process) memoryInUse(ctx context.Context) (bytes float64, err error) {
	if _, err := p.heapFigures(ctx); err != nil {
		return 0, err
	}
	figures, err := p.heapFigures(ctx)
	return figures["HeapAlloc"] + figures["Stack"], err
}

// allocations runs the garbage collector, and returns the number of objects that the process has allocated since its start.
func (p *process) allocations(ctx context.Context) (float64, error) {
	figures, err := p.heapFigures(ctx)
	return figures["Mallocs"], err
}

// heapFigures runs the garbage collector, and returns the runtime's statistics: the lines "# Name = number" at the end of a
// heap profile.
func (p *process) heapFigures(ctx context.Context) (figures, error) {
	body := &strings.Builder{}
	if err := get(ctx, http.DefaultClient, "http://"+p.addrs["admin"]+"/debug/pprof/heap?gc=1&debug=1", body); err != nil {
		return nil, err
	}
	counted := figures{}
	for _, one := range heapFigure.FindAllStringSubmatch(body.String(), -1) {
		counted[one[1]], _ = strconv.ParseFloat(one[2], 64) // cannot fail, because the value consists of digits
	}
	for _, name := range []string{"HeapAlloc", "Stack", "Mallocs"} {
		if counted[name] == 0 {
			return nil, fmt.Errorf("the heap profile has no value named %q", name)
		}
	}
	return counted, nil
}

var heapFigure = regexp.MustCompile(`(?m)^# (\w+) = (\d+)`)

// get sends a GET request with benchKey as the bearer token, and copies the body of the response to body. It returns an error
// unless the status is 200.
func get(ctx context.Context, client *http.Client, url string, body io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+benchKey)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(body, response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return err
}
