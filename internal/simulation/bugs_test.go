package simulation

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	allBugs = flag.Bool("bugs", false, "apply each seeded bug, and see whether the simulation catches it")
	oneBug  = flag.String("bug", "", "apply only the bugs whose name holds this")
)

// edit is a change of one place of the source.
type edit struct{ file, old, new string }

// bug is a mistake that somebody could make, and a promise that it breaks. It is built into a
// test binary by an overlay, and never into the program.
type bug struct {
	name   string
	edits  []edit
	jobs   []job    // that catch it, the best first
	breaks []string // promises, one of which must be told as broken
}

// seeds are jobs of a kind.
func seeds(kind string, seeds ...uint64) (jobs []job) {
	for _, s := range seeds {
		jobs = append(jobs, job{Seed: s, Kind: kind})
	}
	return jobs
}

// TestTheSimulationCatchesSeededBugs is make simulate-bugs.
func TestTheSimulationCatchesSeededBugs(t *testing.T) {
	if !*allBugs {
		t.Skip("no -bugs")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	turns := make(chan struct{}, 2)
	var all sync.WaitGroup
	for _, b := range bugs {
		if !strings.Contains(b.name, *oneBug) {
			continue
		}
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			began := time.Now()
			caught, err := b.try(t.Context(), root, t.TempDir())
			if err != nil {
				t.Errorf("%s: %v", b.name, err)
				return
			}
			t.Logf("%-70s %s (%v)", b.name, caught, time.Since(began).Round(time.Second))
		})
	}
	all.Wait()
}

// TestTheSeedsOfTheBugsAreQuietWithoutThem shows that it is the bugs that are caught.
func TestTheSeedsOfTheBugsAreQuietWithoutThem(t *testing.T) {
	if !*allBugs {
		t.Skip("no -bugs")
	}
	seen := map[string]bool{}
	for _, b := range bugs {
		for _, j := range b.jobs {
			if strings.Contains(b.name, *oneBug) && !seen[j.command()] {
				seen[j.command()] = true
				keeps(t, j)
			}
		}
	}
}

// TestEverySeededBugFitsTheSource keeps the list up to date with the source.
func TestEverySeededBugFitsTheSource(t *testing.T) {
	if len(bugs) < 20 {
		t.Errorf("only %d bugs", len(bugs))
	}
	known := map[string]bool{}
	for _, p := range promises {
		known[p.name] = true
	}
	for _, b := range bugs {
		if _, err := b.overlay(filepath.Join("..", ".."), t.TempDir()); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
		for _, name := range b.breaks {
			if !known[name] {
				t.Errorf("%s: there is no promise %q", b.name, name)
			}
		}
		if len(b.breaks) == 0 || len(b.jobs) == 0 {
			t.Errorf("%s: it names no promise or no seed", b.name)
		}
	}
}

// overlay writes the changed files and what tells the compiler of them.
func (b bug) overlay(root, dir string) (string, error) {
	changed := map[string]string{} // text by file
	for _, e := range b.edits {
		path := filepath.Join(root, e.file)
		text, ok := changed[path]
		if !ok {
			data, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			text = string(data)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("%s has %d places that read %q, not one: update the list", e.file, n, e.old)
		}
		changed[path] = strings.Replace(text, e.old, e.new, 1)
	}
	var list struct{ Replace map[string]string }
	list.Replace = map[string]string{}
	for path, text := range changed {
		file := filepath.Join(dir, fmt.Sprint(len(list.Replace), ".go"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
		list.Replace[path] = file
	}
	data, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, data, 0o600)
}

// try builds the bug and runs its seeds until one breaks a promise.
func (b bug) try(ctx context.Context, root, dir string) (caught string, err error) {
	overlay, err := b.overlay(root, dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "bug.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", binary, "./internal/simulation")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %s", out)
	}
	var last string
	for _, j := range b.jobs {
		last = b.run(ctx, root, binary, j)
		for _, name := range b.breaks {
			if strings.Contains(last, name+": at ") {
				return fmt.Sprintf("seed %d of %s: %s", j.Seed, j.Kind, name), nil
			}
		}
	}
	return "", fmt.Errorf("no seed caught it; the last said:\n%.3000s", last)
}

func (b bug) run(ctx context.Context, root, binary string, j job) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	run := exec.CommandContext(ctx, binary, "-test.run", "^TestOneSeed$", "-test.timeout", "0", "-seed", fmt.Sprint(j.Seed), "-kind", j.Kind)
	run.Dir = filepath.Join(root, "internal", "simulation")
	out, _ := run.CombinedOutput() // it is to fail; what it says counts
	return string(out)
}
