// Package systemtest tests the program together with the software around it. It tests the files in deploy/ with the
// real nginx, Prometheus, Collector and helm, and the pages in a real browser. It also tests the traces, logs and
// metrics for operators. The program runs as a separate process, as it does in production.
//
// A test is skipped with a message if its tool is missing. 'make test-system' installs most of the tools.
package systemtest
