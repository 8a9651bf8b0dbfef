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

	"github.com/easel-grpc/easel/internal/promises"
)

var (
	allBugs = flag.Bool("bugs", false, "Apply each seeded bug, and check that the simulation catches it.")
	oneBug  = flag.String("bug", "", "Apply only the bugs whose names contain this string.")
)

// bug is a plausible mistake, with the promises that it breaks. It is compiled into a test binary through an overlay,
// so the source itself does not change.
type bug struct {
	name   string
	edits  []edit
	jobs   []job    // jobs that can detect the bug; they run in this order until one of them does
	breaks []string // promises that the bug can break; a job that breaks one of them detects the bug
}

// seeds returns a job of the given kind for each seed.
func seeds(kind string, seeds ...uint64) (jobs []job) {
	for _, s := range seeds {
		jobs = append(jobs, job{seed: s, kind: kind})
	}
	return jobs
}

// TestTheSimulationCatchesSeededBugs checks that the simulation detects each seeded bug. It requires the flag -bugs,
// which 'make simulate-bugs' sets.
func TestTheSimulationCatchesSeededBugs(t *testing.T) {
	if !*allBugs {
		t.Skip("requires -bugs")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	slots := make(chan struct{}, 2)
	var all sync.WaitGroup
	for _, b := range bugs {
		if !strings.Contains(b.name, *oneBug) {
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			began := time.Now()
			caught, err := b.detectBug(t.Context(), root, t.TempDir())
			if err != nil {
				t.Errorf("%s: %v", b.name, err)
				return
			}
			t.Logf("%-70s %s (%v)", b.name, caught, time.Since(began).Round(time.Second))
		})
	}
	all.Wait()
}

// TestUnchangedSourcePassesSimulationsOfTheBugs runs the jobs that detect the bugs on the unchanged source, and checks that
// they break no promise.
func TestUnchangedSourcePassesSimulationsOfTheBugs(t *testing.T) {
	if !*allBugs {
		t.Skip("requires -bugs")
	}
	seen := map[string]bool{}
	for _, b := range bugs {
		for _, j := range b.jobs {
			if strings.Contains(b.name, *oneBug) && !seen[j.command()] {
				seen[j.command()] = true
				runAndCheck(t, j)
			}
		}
	}
}

func TestEverySeededBugCanBeAppliedToTheSource(t *testing.T) {
	if len(bugs) < 20 {
		t.Errorf("only %d bugs", len(bugs))
	}
	known := map[string]bool{}
	for _, p := range promises.All {
		known[p.Name] = true
	}
	for _, p := range timed {
		known[p.Name] = true
	}
	for _, b := range bugs {
		if _, err := b.writeOverlay(filepath.Join("..", ".."), t.TempDir()); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
		for _, name := range b.breaks {
			if !known[name] {
				t.Errorf("%s: unknown promise %q", b.name, name)
			}
		}
		for _, j := range b.jobs {
			j.plan() // panics if the kind or a fault of the job is unknown
		}
		if len(b.breaks) == 0 || len(b.jobs) == 0 {
			t.Errorf("%s: the bug has no promise or no seed", b.name)
		}
	}
}

// TestEverySeededBugCompiles checks that the source compiles with each bug. Without this test, only the
// nightly 'make simulate-bugs' would find compile errors.
func TestEverySeededBugCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: one goroutine has no data races")
	}
	root := filepath.Join("..", "..")
	checker, err := newTypeChecker(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bugs {
		if err := b.checkTypes(checker, root); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

// apply applies the bug's edits to the source tree at root. It returns the new source of each changed file, keyed by
// path.
func (b bug) apply(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range b.edits {
		if err := e.apply(root, changed); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// writeOverlay writes the changed files and a JSON file for the -overlay flag of go build. It returns the path of the
// JSON file.
func (b bug) writeOverlay(root, dir string) (string, error) {
	changed, err := b.apply(root)
	if err != nil {
		return "", err
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

// detectBug compiles the program with the bug, and runs the bug's jobs until a job breaks one of the promises in
// b.breaks. detection describes the job and the broken promise.
func (b bug) detectBug(ctx context.Context, root, dir string) (detection string, err error) {
	overlay, err := b.writeOverlay(root, dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "bug.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", binary, "./internal/simulation")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the bug does not compile: %s", out)
	}
	var last string
	for _, j := range b.jobs {
		last = j.run(ctx, binary).output
		for _, name := range b.breaks {
			if strings.Contains(last, name+": at ") {
				return fmt.Sprintf("seed %d of %s: %s", j.seed, j.kind, name), nil
			}
		}
	}
	return "", fmt.Errorf("no seed caught the bug; the output of the last run is:\n%.3000s", last)
}
