// Package simulation proves the promises of Easel by running all of it in simulated time.
//
// A world is the whole real stack in one testing/synctest bubble: generated stubs, gRPC
// and HTTP servers, service, hub, catalog client and sandbox, over connections in memory.
// A seed decides everything about it: the dialect of the catalog, the replicas, who calls
// and how, and which faults of the catalogue happen when. Hours pass in milliseconds,
// because idle time costs nothing.
//
// Afterwards a checker reads the history, one function for each promise, and compares it
// with the books of the sandbox. A run whose load or whose faults did not happen is a
// failure too. A seed that fails runs again in the same way: it prints how, the shortest
// plan that still fails, and what was seen of the render concerned.
//
//	world     the stack: it is built, replicas die and come back, it ends
//	network   connections in memory that can be cut, frozen and lost
//	traffic   what went to the catalog
//	plan      what a seed decides
//	trouble   the faults
//	caller    who calls: orders, watches, waits, downloads, and those who misbehave
//	history   what was seen
//	check     the promises
//	story     what is told of a failure
//	bugs      changes of the source that the simulation must catch
//
// All of it is test code, so that nothing of it can be in the program.
package simulation
