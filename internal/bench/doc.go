// Command bench measures what the facade costs beside a peer: the facade that a good engineer would
// write from stock parts with the same features on (peer.go).
//
// Facade, load and catalog are processes of their own on one machine. Each measurement has fresh
// ones, and the two facades take turns: so a ratio holds where a time does not. Both export every
// trace to the same kind of sink. The CPU of a facade is what the kernel accounts to its process.
//
// From main one reads on to the rows (rows.go, a table), how they are measured (measure.go), their
// measurements (calls.go, watches.go, polls.go, downloads.go) and the processes that these start
// (scene.go, process.go): the peer (peer.go), a catalog with fixed answers (stub.go) and the sink of
// traces (sink.go). The load comes from the process that measures: from the stock client, and where
// there are thousands of watches, from one of raw HTTP/2 frames (client.go, h2.go), as the stock one
// costs more than the facades do.
package main
