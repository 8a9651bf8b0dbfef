// Package torture kills the real program while it places paid orders.
//
// Callers order through real facades, in front of one real sandbox that stores its accounts in a file. Each runs in its
// own process. Relays between them read every byte. They cut, reset or silence connections. They also kill a process at
// an exact point of an order: before the order is sent, in the middle of its bytes, after the catalog has received it,
// in the middle of the response, and before or after the caller receives the response. A killed process is restarted.
// Callers then repeat their idempotency keys at any running facade. In runs with a ledger, callers of several teams
// share one API key, and PostgreSQL is killed too.
//
// After a run, the recorded observations of the callers, the catalog's accounts and the ledger are checked against
// [promises.All].
//
//	faults    the table of all faults, and the points at which they happen
//	world     the processes of a run, and the run itself
//	caller    places and repeats orders, and watches and reads its team's generations; one in four callers uses REST
//	relay     the connections from callers to facades, and from facades to the catalog
//	database  the connection from a facade to PostgreSQL
//	settled   waits until all orders are settled, and reads their final state from the catalog and the ledger
//	peer      finds the facade that opened a connection, because all facades connect to the same URL of the catalog
//
// The tests of replicas have their own faults. Their catalog is a stub, whose generations end when the test ends them:
//
//	fleet     facades over one PostgreSQL, a stub catalog, and watches that reconnect to another facade
//	replicas  a facade, the database or the catalog is killed, stopped, cut off or replaced
//	tunnel    a connection that drops all bytes
//
// The tests of result copies also kill the store that contains the copies:
//
//	results   Easel, a real store and the catalog are killed in turn while results are copied
//	gallery   the processes of that test
//	doors     a proxy that counts the reads of results from the catalog
//
// All other files are tests, so the program contains no code that causes crashes. The tests need Unix signals.
package torture
