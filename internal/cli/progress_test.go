package cli

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/terminal"
)

func TestTheProgressLineSaysHowFarAndHowFast(t *testing.T) {
	var p progress
	p.done.Store(3_000_000)
	p.all.Store(4_000_000)
	if got, want := p.line(terminal.Style{}, 24, time.Second), "##################...... 3.0 MB of 4.0 MB  3.0 MB/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.all.Store(0)
	if got, want := (&progress{}).line(terminal.Style{}, 24, 3*time.Second), "waiting for the first byte  3.0s"; got != want {
		t.Errorf("before anything has come: %q, want %q", got, want)
	}
	if got, want := p.line(terminal.Style{}, 24, 0), "downloading 3.0 MB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
