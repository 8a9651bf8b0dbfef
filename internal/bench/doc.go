// Command bench measures what the facade costs, as ratios to the bare facade.
//
// The bare facade (bare.go) is the smallest honest program that does the same without
// tracing, validation, sharing or limits. Server, load and catalog are processes of their
// own on one machine; each repeat has fresh ones, and the two that are compared take turns.
// So a ratio holds where a time does not: the neighbours are the same for both. The CPU of
// a server is what the kernel accounts to its process, its memory is read after two
// collections of garbage.
//
// The load of watches and downloads comes from a client of raw HTTP/2 frames (h2.go), as the
// stock client costs more than the servers do. The catalog is a fixed-answer server (stub.go).
package main
