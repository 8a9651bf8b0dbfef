// Command bench compares the cost of easel with the cost of a peer (peer.go). The peer is a facade as a good engineer
// would write it with standard libraries. It has the features that are measured.
//
// The measured facade is a separate process. The measuring process contains the clients that create the load, a catalog
// with fixed responses (stub.go), and a sink for traces (sink.go). Each measurement creates a new scene.
//
// The two facades are measured alternately, so that their ratio is comparable even if the times of two runs are not.
// Both facades export every trace. A facade's CPU time is the kernel's figure for its process.
//
// Read main.go first. Then read the table of rows (rows.go), the procedure (measure.go), the measurements (calls.go,
// watches.go, polls.go, orders.go), and their environment (scene.go, process.go).
//
// The standard gRPC client creates most of the load. For thousands of watches, it would use more CPU time than the
// facades. Therefore, a client that writes HTTP/2 frames creates these watches (client.go, h2.go).
package main
