package limiter

import (
	"context"
	"runtime"
)

// largeWork is from how many bytes on work takes turns.
const largeWork = 64 << 10

// processors are half of the processors: what is large leaves the others to whoever has little.
var processors = New(Config{Places: [Classes]int{max(1, runtime.GOMAXPROCS(0)/2)}})

// Work does work on so many bytes for an owner. Where they are many, it waits for one of half of the processors, which the
// owners share: nobody waits for all that somebody else has.
func Work(ctx context.Context, owner string, bytes int, work func() error) error {
	if bytes < largeWork {
		return work()
	}
	turn, err := processors.Enter(ctx, Request{Owner: owner})
	if err != nil {
		return err
	}
	defer turn.End(Answer{})
	return work()
}
