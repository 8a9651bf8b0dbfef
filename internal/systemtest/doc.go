// Package systemtest proves what stands around the program: the files below deploy/ beside the
// real nginx, Prometheus, Collector and helm, the pages in a real browser, the traces, logs and
// metrics that an operator sees. The built program runs as a process, as it ships.
//
// A test whose tool is missing is skipped and says so. `make test-system` installs what it can.
package systemtest
