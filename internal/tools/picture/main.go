// Command picture records a real watch on a real terminal, and draws the recording as an SVG
// that moves. It starts easel dev, orders a few renders so that the server knows how long they
// take, then records one order. After `make build`:
//
//	go run -C internal/tools ./picture
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	width  = 92
	height = 15
	// key is worth nothing outside of this run.
	key = "sandbox_live_forthepictureofawatch"
)

// shown is the command that is recorded.
var shown = []string{"easel", "generate", "studio/landscape", "prompt=a calm sea at dusk", "--watch", "--out", "sea.png"}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	easel, err := filepath.Abs("../../bin/easel")
	if err == nil {
		err = picture(ctx, easel, "../../docs/watch.svg")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func picture(ctx context.Context, easel, to string) error {
	work, err := os.MkdirTemp("", "easel-picture-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	addr, stop, err := serve(ctx, easel)
	if err != nil {
		return err
	}
	defer stop()
	env := append(os.Environ(), "EASEL_ADDR="+addr, "EASEL_API_KEY="+key, "LANG=C.UTF-8", "TERM=xterm-256color", "NO_COLOR=")
	before := command(ctx, easel, work, env, "generate", "studio/landscape", "prompt=a grey sea", "--count", "6", "--watch")
	if out, err := before.CombinedOutput(); err != nil {
		return fmt.Errorf("the orders before: %w\n%s", err, out)
	}
	frames, err := record(command(ctx, easel, work, env, shown[1:]...))
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(work, "sea.png")); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(draw(frames)), 0o644)
}

func command(ctx context.Context, easel, work string, env []string, words ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, easel, words...)
	c.Dir, c.Env = work, env
	return c
}

// serve starts the facade over its sandbox on free ports, twice as fast as real, and
// gives its address.
func serve(ctx context.Context, easel string) (addr string, stop func(), err error) {
	server := exec.CommandContext(ctx, easel, "dev", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0",
		"--admin-addr", "127.0.0.1:0", "--speed", "2", "--seed", "7", "--key", key)
	out, err := server.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = server.Process.Kill() // nothing of it is kept
		_ = server.Wait()
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if match := regexp.MustCompile(`gRPC +(\S+)`).FindStringSubmatch(lines.Text()); match != nil {
			addr = match[1]
		}
		if strings.Contains(lines.Text(), "Ctrl-C") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return addr, stop, nil
		}
	}
	stop()
	return "", nil, errors.New("easel dev ended before it was ready")
}
