// Command bench measures the cost of the facade beside a peer: the facade that a good engineer would
// write from stock parts with the same features on (peer.go).
//
// The facade is a process of its own. The load, a catalog with fixed answers (stub.go) and the sink
// of traces (sink.go) are in the process that measures. Each measurement has a fresh scene of these,
// and the two facades take turns: so a ratio holds where a time does not. Both export every trace.
// The CPU of a facade is what the kernel accounts to its process.
//
// From main one reads on to the rows (rows.go, a table), how they are measured (measure.go), their
// measurements (calls.go, watches.go, polls.go, orders.go) and what these start (scene.go,
// process.go). The load comes from the stock client, and where there are thousands of watches, from
// one of raw HTTP/2 frames (client.go, h2.go), as the stock one costs more than the facades do.
package main
