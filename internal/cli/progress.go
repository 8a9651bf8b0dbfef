package cli

import (
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/terminal"
)

// progress counts bytes as they arrive. It is written by the download and read by the
// live line.
type progress struct {
	arrived atomic.Int64 // in this run
	begun   atomic.Int64 // left by an earlier run
	total   atomic.Int64 // of the whole, 0 where nobody knows
}

// line is the live line of a download, with a bar of so many letters.
func (p *progress) line(look terminal.Style, bar int, elapsed time.Duration) string {
	here, total := p.begun.Load()+p.arrived.Load(), p.total.Load()
	rate := ""
	if elapsed > 100*time.Millisecond {
		rate = "  " + size(int64(float64(p.arrived.Load())/elapsed.Seconds())) + "/s"
	}
	if here == 0 {
		return "waiting for the first byte" + look.Paint(terminal.Dim, "  "+briefly(elapsed))
	}
	if total == 0 {
		return "downloading " + size(here) + look.Paint(terminal.Dim, rate)
	}
	return look.Bar(float64(here)/float64(total), bar) + " " + size(here) + " of " + size(total) + look.Paint(terminal.Dim, rate)
}
