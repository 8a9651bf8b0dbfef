package rawjson

import "runtime"

// large is from how many bytes on work on JSON is bounded.
const large = 64 << 10

// processors are half of the processors: what is large leaves the others to whoever has little.
var processors = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Bounded does work on so many bytes of JSON. Where they are many, it waits until one of half of the processors is free.
func Bounded(bytes int, work func() error) error {
	if bytes >= large {
		processors <- struct{}{}
		defer func() { <-processors }()
	}
	return work()
}
