// Package simulation tests the promises of Easel by running the complete system in simulated time.
//
// A world is the complete real stack in one testing/synctest bubble: generated stubs, gRPC
// and HTTP servers, service, hub, catalog client and sandbox, over connections in memory.
// A seed determines everything: the dialect of the catalog, the replicas, the callers and
// their behavior, and the faults and their times. Hours pass in milliseconds, because idle
// time is skipped.
//
// Afterwards the record of the callers must keep all of [promises.All], which torture checks too, and the promises
// that only virtual time can check. A run without its load or its faults is a failure too. A failing seed can be run
// again: the report has the command, the plan, and the events of the generation concerned.
//
//	world     the stack: its start, the restarts of replicas, and its end
//	team      worlds with a ledger: teams behind one API key, and the steps of their orders
//	database  the ledger's database, which is slow, unavailable, full, or loses a commit
//	polls     more generations than the poll rate can read one by one
//	gate      teams whose demand exceeds the catalog's rate, and the order of their requests
//	network   connections in memory that can be cut, frozen and lost
//	traffic   the requests to the catalog
//	plan      the decisions of a seed
//	trouble   the faults
//	caller    orders, watches, waits, downloads, and callers that misbehave
//	check     the promises that need virtual time
//	driver    a process for each seed
//	story     the report of a failure
//	bugs      changes of the source that the simulation must catch
//
// All of it is test code, so the program can't contain any of it.
package simulation
