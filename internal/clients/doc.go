// Package clients tests the client libraries of all languages. The tests run the examples of the libraries against the
// real server. They kill processes, and interrupt or freeze the connections between an example and the server.
//
// Without flags, the package tests only the Go example, which needs only Go. `make test-clients` builds the examples of
// all languages and tests them.
package clients
