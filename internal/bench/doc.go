// Command bench compares the cost of easel with a peer: a facade that a good engineer would write with standard
// libraries, and that has the measured features (peer.go).
//
// The measured facade is a separate process. The load, a catalog with fixed responses (stub.go) and the sink of traces
// (sink.go) run in the measuring process. Each measurement creates a new scene. The two facades alternate, so that
// their ratio is comparable even if the times of two runs are not. Both export every trace. The CPU time of a facade is
// the kernel's figure for its process.
//
// After main, read the rows (rows.go, a table), the procedure (measure.go), the measurements (calls.go, watches.go,
// polls.go, orders.go) and their environment (scene.go, process.go). The standard gRPC client creates the load, except
// for thousands of watches. There, it would use more CPU time than the facades, so a client that writes HTTP/2 frames
// creates the load (client.go, h2.go).
package main
