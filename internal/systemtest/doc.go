// Package systemtest tests the environment of the program: the files in deploy/ with the real nginx, Prometheus,
// Collector and helm, the pages in a real browser, and the traces, logs and metrics for operators. The program runs as
// a process, as shipped.
//
// A test with a missing tool is skipped and reports it. `make test-system` installs the tools that it can.
package systemtest
