// Package simulation tests the promises of Easel by running the complete system in virtual time.
//
// A world is the complete stack in one testing/synctest bubble: generated stubs, gRPC and HTTP
// servers, service, hub, catalog client and sandbox, over in-memory connections. A seed determines
// everything: the dialect of the catalog, the replicas, the callers and their behavior, and the
// faults and their times. Hours pass in milliseconds, because the bubble skips idle time.
//
// After a run, the recorded observations of the callers are checked against [promises.All], which
// package torture checks too, and against the promises that only virtual time can check. A run also
// fails if it had no load or if its planned faults did not happen. A failing seed can be repeated:
// the report contains the command, the plan, and the events of the affected generation.
//
//	world     start and end of the stack, and restarts of replicas
//	team      worlds with a ledger: teams behind one API key, and the steps of their orders
//	database  the ledger's database, which can be slow, unavailable or full, or lose a commit
//	network   in-memory connections that can be cut, frozen or lost
//	traffic   the requests to the catalog
//	plan      everything that a seed determines
//	trouble   the faults
//	caller    orders, watches, waits and reads
//	check     the promises that need virtual time
//	driver    runs each seed in its own process
//	story     the report of a failure
//	bugs      seeded bugs that the simulation must detect
//
// All code of this package is in _test.go files, so no program contains it.
package simulation
