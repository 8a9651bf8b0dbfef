// Package torture kills the real program while it spends money.
//
// Callers order through two real facades in front of one real sandbox with its ledger in a
// file, each in its own process. Proxies between them read every byte. They cut, reset or
// silence connections, and they kill a process at an exact point of an order: before it is
// sent, in the middle of its bytes, once the catalog has received it, in the middle of
// the response, before the caller receives it, after. A killed process is started again, and
// callers repeat their idempotency keys at any running facade.
//
// In the end the ledger must have exactly one charge for each order, every caller must know
// the generation of its order, the same idempotency key must still return it, and every file
// must be complete.
//
//	process      a program that runs, and is killed
//	supervisor   starts it again and decides where it dies next
//	wire         the connection from a facade to the catalog
//	callerproxy  the connection from a caller to a facade
//	caller       places and repeats orders; three in four use gRPC, the others REST
//	books        compares the ledger with the outcomes, and prints the table of figures
//
// The same with a ledger: callers of several teams share one API key, and PostgreSQL is killed too. Here
// callers may give up; the ledger then determines whether their orders exist. In the end it equals the
// accounts of the catalog to the cent.
//
//	ledger       the run, in which no order stays unknown
//	bookwire     the connection from a facade to PostgreSQL
//	peer         finds the facade of a connection: a ledger belongs to one URL of the catalog
//	team         a caller that gives up, and the access of a team to others' orders
//	ledgerbooks  compares the ledger with the catalog and with the outcomes
//
// Besides the kills there are two faults that only a real process and a real network have:
//
//	stack     one facade, one sandbox, and a tunnel between them
//	hole      the tunnel drops all bytes
//	stopped   the facade is stopped, and resumed later
//
// Replicas have their own faults. Their catalog is a stub, whose generations end
// when the test ends them:
//
//	fleet     facades over one PostgreSQL, a stub catalog, and watches that reconnect to another facade
//	replicas  a facade or the database is killed, stopped, cut off or replaced
//
// Copies of results are in a store, which is killed and returns wrong data too:
//
//	results       Easel, a real store and the catalog are killed in turn while results are copied
//	doors         a proxy that counts requests to the catalog, and one that injects faults of the store
//	largeresults  memory during concurrent copies and downloads of large results
//	erased        a search for bytes of results that were erased
//
// All of it is test code, so that the program has no code for crashes. It needs Unix signals.
package torture
