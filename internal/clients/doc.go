// Package clients tests the client libraries of all languages. The examples of the libraries call the real server, and the
// tests kill the processes and interrupt or freeze the connections between them.
//
// Without flags the package runs only the Go example, which needs only Go. `make test-clients`
// builds the other examples first and runs all of them.
package clients
