// Package clients proves the helpers of every language: the real program serves, the examples over the
// helpers call it, and the test kills, cuts and freezes what is between them.
//
// Without flags it runs the Go example alone, which needs nothing but Go. `make test-clients`
// builds the others first and runs all of them.
package clients
