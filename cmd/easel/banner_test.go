package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/proctest"
)

// devOn runs 'easel dev' on free ports, with additional flags. It returns the banner, and a function that stops the command
// and returns its exit code.
func devOn(t *testing.T, flags ...string) (banner string, stopDev func() int) {
	t.Helper()
	args := append([]string{"dev", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"}, flags...)
	dev := startCommand(t, nil, proctest.DevReady, args...)
	return dev.stdout.String(), dev.stop
}

func TestDevCommandWarnsAboutTemporaryData(t *testing.T) {
	t.Parallel()
	banner, _ := devOn(t)
	if !strings.Contains(banner, "All data is lost then") || !strings.Contains(banner, "--db FILE") {
		t.Errorf("the banner does not say that a catalog in memory is lost:\n%s", banner)
	}
	file := filepath.Join(t.TempDir(), "catalog.db")
	first, stop := devOn(t, "--db", file)
	if !strings.Contains(first, "kept in "+file) {
		t.Errorf("first start with --db printed\n%s", first)
	}
	stop()
	again, stop := devOn(t, "--db", file)
	if !strings.Contains(again, "keys still work") {
		t.Errorf("second start with --db printed\n%s", again)
	}
	old := map[string]string{"EASEL_ADDR": proctest.Find(t, `gRPC +(\S+)`, again), "EASEL_API_KEY": proctest.Find(t, `key +(\S+)`, first)}
	if got := easelEnv(t.Context(), nil, old, "account"); got.exit != exitOK {
		t.Errorf("the earlier key does not work: exit %d\n%s", got.exit, got.stderr)
	}
	stop()
	for _, worth := range []string{"50.00 EUR", "with its remaining balance"} {
		named, stop := devOn(t, "--db", file, "--key", "sandbox_live_mine")
		if !strings.Contains(named, worth) {
			t.Errorf("the banner with --key lacks %q:\n%s", worth, named)
		}
		stop()
	}
}

func TestSuggestedCommandsContainActualProgramName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "easel", "easel": "easel", "bin/easel": "bin/easel", "/my tools/easel": "'/my tools/easel'"} {
		if got := (&cli.Program{Name: name}).Self(); got != want {
			t.Errorf("called as %q, the program's name is %s, want %s", name, got, want)
		}
	}
	bin := filepath.Join(t.TempDir(), "my-easel")
	linkProgram(t, bin)
	command := exec.CommandContext(t.Context(), bin, "demo", "--out", bin+".png")
	command.Env = append(os.Environ(), asProgram)
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Next: "+bin+" dev") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSandboxPrintsFaultInjectionCommand(t *testing.T) {
	box := startSandbox(t, "--admin")
	line := proctest.Find(t, `(curl .*/_sandbox/faults -d .*)`, box.stdout.String())
	if help := easel(t.Context(), nil, "sandbox", "--help").stdout; !strings.Contains(help, line[strings.Index(line, "-d "):]+"\n") {
		t.Errorf("%s is not in the help:\n%s", line, help)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
	if err != nil || !strings.Contains(string(out), `"status": 503`) {
		t.Errorf("%s\n%v\n%s", line, err, out)
	}
}

func TestDevCommandShowsRunningStateByDefault(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags []string
		shown bool
	}{{nil, true}, {[]string{"--dialect", "default"}, false}} {
		t.Run(strings.Join(test.flags, " "), func(t *testing.T) {
			t.Parallel()
			banner, _ := devOn(t, append(test.flags, "--seed", "7", "--speed", "0.5")...)
			env := map[string]string{"EASEL_ADDR": proctest.Find(t, `gRPC +(\S+)`, banner), "EASEL_API_KEY": proctest.Find(t, `key +(\S+)`, banner)}
			got := easelEnv(t.Context(), nil, env, "generate", "studio/landscape", "prompt=sea", "size=64x40", "--watch")
			if got.exit != exitOK || strings.Contains(got.stderr, "running") != test.shown {
				t.Errorf("exit %d\n%s", got.exit, got.stderr)
			}
		})
	}
}
