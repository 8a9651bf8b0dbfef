// Package torture kills the real program while it places paid orders.
//
// A facade is a process of the easel server. Callers place orders through several facades, which use one sandbox of the
// catalog. The sandbox is also a process, and stores its accounts in a file. Relays are proxies between callers, facades
// and the sandbox. A relay can cut, reset or silence a connection. It can also kill a process at an exact point of an order:
// before the order is sent, in the middle of its bytes, after the catalog has received it, in the middle of the
// response, and before or after the caller receives the response. A killed process is restarted, and callers repeat
// their idempotency keys at any running facade. In runs with a ledger, callers of several teams share one API key, and
// PostgreSQL is killed too.
//
// After a run, the recorded observations of the callers, the catalog's accounts and the ledger are checked against
// [promises.All].
//
//	faults    the table of all faults, and the points at which they happen
//	world     the processes of a run, and the run itself
//	caller    orders, repeated orders, and watches and reads of the team's generations; one in four callers uses REST
//	relay     the connections from callers to facades, and from facades to the catalog
//	database  the connection from a facade to PostgreSQL
//	settled   the wait until all orders are settled, and their final states in the catalog and the ledger
//	peer      checks which facade opened a connection to the catalog, because all facades connect to the same URL
//
// The replica tests inject their own faults. They use a stub catalog, in which a test decides when a generation ends:
//
//	fleet     facades over one PostgreSQL, a stub catalog, and watches that reconnect to another facade
//	replicas  tests that kill, stop, cut off or replace a facade, the database or the catalog
//
// The tests of result copies also kill the store that contains the copies:
//
//	results   a test that kills Easel, a real store and the catalog in turn while results are copied
//	gallery   the processes of that test
//	doors     a proxy that counts the reads of results from the catalog
//
// All code of this package is in _test.go files. The faults are injected from outside, so the program contains no code
// that makes it crash. The tests need Unix signals.
package torture
