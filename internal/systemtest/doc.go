// Package systemtest tests the program's environment: the files in deploy/ with the real nginx, Prometheus, Collector
// and helm, the pages in a real browser, and the traces, logs and metrics for operators. The program runs as a process,
// as it is shipped.
//
// A test is skipped with a message if its tool is missing. 'make test-system' installs most of the tools.
package systemtest
