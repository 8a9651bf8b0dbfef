// Package simulation tests the promises of Easel by running the complete system in simulated time.
//
// A world is the complete real stack in one testing/synctest bubble: generated stubs, gRPC
// and HTTP servers, service, hub, catalog client and sandbox, over connections in memory.
// A seed determines everything: the dialect of the catalog, the replicas, the callers and
// their behavior, and the faults and their times. Hours pass in milliseconds, because idle
// time is skipped.
//
// Afterwards a checker reads the history, one function for each promise, and compares it
// with the ledger of the sandbox. A run without its load or its faults is a failure too. A failing seed can be run again: the report has the command, the shortest
// plan that still fails, and the events of the generation concerned.
//
//	world     the stack: its start, the restarts of replicas, and its end
//	team      worlds with a ledger: teams behind one API key, and the steps of their orders
//	database  the ledger's database, which is slow, unavailable, full, or loses a commit
//	polls     the ledger's notifications between replicas, and a crash that loses them
//	gate      teams whose demand exceeds the catalog's rate, and the order of their requests
//	network   connections in memory that can be cut, frozen and lost
//	traffic   the requests to the catalog
//	plan      the decisions of a seed
//	trouble   the faults
//	caller    orders, watches, waits, downloads, and callers that misbehave
//	history   the events that callers saw
//	check     the promises
//	story     the report of a failure
//	bugs      changes of the source that the simulation must catch
//
// All of it is test code, so the program can't contain any of it.
package simulation
