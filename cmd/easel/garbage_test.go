package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestGarbageHasRoomUnlessSomebodyKnowsBetter(t *testing.T) {
	goal := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.NextGC
	}
	t.Setenv("GOGC", "")
	before := goal()
	end := makeRoomForGarbage()
	if with := goal(); with < before+2*roomForGarbage-before/4 {
		t.Errorf("the next collection is at %d MiB instead of %d", with>>20, before>>20)
	}
	end()
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
			if with := goal(); with > before+before/4 {
				t.Errorf("the next collection is at %d MiB instead of %d", with>>20, before>>20)
			}
		})
	}
}
