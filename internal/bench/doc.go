// Command bench compares the cost of easel with the cost of another facade, the peer (peer.go). The peer is a careful
// implementation with standard libraries, and has only the features that are measured.
//
// The measured facade is a separate process. The measuring process contains the clients that create the load, a
// catalog with fixed responses (stub.go), and a sink, which accepts and discards traces (sink.go). Each measurement
// begins with a new process, catalog and sink.
//
// The two facades are measured alternately. The ratio of their costs is therefore comparable between runs, even if
// the costs themselves are not. Both facades export every trace. The CPU time of a facade is the time that the kernel
// reports for its process.
//
// Read main.go first. Then read the table of rows (rows.go), the procedure (measure.go), the measurements (calls.go,
// watches.go, polls.go, orders.go), and their environment (scene.go, process.go).
//
// The standard gRPC client creates most of the load. For thousands of watches, it would use more CPU time than the
// facades. These watches are therefore opened by a client that reads and writes HTTP/2 frames itself (client.go,
// h2.go).
package main
