// Command bench compares the cost of the facade with a peer: a facade with the same features that a good engineer would
// write with standard libraries (peer.go).
//
// The facade is a separate process. The load, a catalog with fixed responses (stub.go) and the sink of traces (sink.go)
// are in the measuring process. Each measurement has a new scene, and the two facades alternate, so that ratios are
// comparable even if times are not. Both export every trace. The kernel measures the CPU time of a facade's process.
//
// From main, continue with the rows (rows.go, a table), the procedure (measure.go), the measurements (calls.go,
// watches.go, polls.go, orders.go) and their environment (scene.go, process.go). The standard client creates the load.
// For thousands of watches, a client of raw HTTP/2 frames does (client.go, h2.go), because the standard client costs
// more than the facades.
package main
