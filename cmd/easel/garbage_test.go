package main

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// goal is at how much memory the next collection is.
func goal() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NextGC
}

// settles collects until the next collection is where it should be.
func settles(t *testing.T, what string, fits func(goal uint64) bool) {
	t.Helper()
	var at uint64
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if at = goal(); fits(at) {
			return
		}
	}
	t.Errorf("%s: the next collection is at %d MiB", what, at>>20)
}

// alone reports whether the test is in a process where nothing of other tests is live. Else it runs
// there.
func alone(t *testing.T) bool {
	t.Helper()
	const marked = "TEST_ALONE"
	if os.Getenv(marked) == t.Name() {
		return true
	}
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$") //nolint:gosec // this program
	process.Env = append(os.Environ(), marked+"="+t.Name())
	out, err := process.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func TestGarbageHasRoomUnlessSomebodyKnowsBetter(t *testing.T) {
	if !alone(t) {
		return
	}
	t.Setenv("GOGC", "")
	before := goal()
	if before > 2*roomForGarbage*7/8 {
		t.Fatalf("more is live than the room is for: the next collection is at %d MiB", before>>20)
	}
	end := makeRoomForGarbage()
	settles(t, "with room", func(goal uint64) bool {
		return goal > roomForGarbage*3/4 && goal < before/2+roomForGarbage*5/4
	})
	live := make([]byte, 4*roomForGarbage)
	settles(t, "with much that is live", func(goal uint64) bool {
		return goal > 8*roomForGarbage && goal < 8*roomForGarbage+before+before/4
	})
	runtime.KeepAlive(live)
	settles(t, "with room again", func(goal uint64) bool { return goal < before/2+roomForGarbage*5/4 })
	end()
	settles(t, "in the end", func(goal uint64) bool { return goal < before+before/4 })
	for name, set := range map[string]func(t *testing.T){
		"GOGC": func(t *testing.T) { t.Setenv("GOGC", "100") },
		"a small GOMEMLIMIT": func(t *testing.T) {
			was := debug.SetMemoryLimit(64 << 20)
			t.Cleanup(func() { debug.SetMemoryLimit(was) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			set(t)
			defer makeRoomForGarbage()()
			for range 3 {
				if with := goal(); with > before+before/4 {
					t.Errorf("the next collection is at %d MiB instead of %d", with>>20, before>>20)
				}
			}
		})
	}
}
