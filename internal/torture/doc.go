// Package torture kills the real program while it spends money.
//
// Callers order through real facades in front of one real sandbox with its ledger in a file, each in its own process.
// Relays between them read every byte. They cut, reset or silence connections, and they kill a process at an exact point
// of an order: before it is sent, in the middle of its bytes, once the catalog has received it, in the middle of the
// response, before the caller receives it, after. A killed process is started again, and callers repeat their idempotency
// keys at any running facade. With a ledger, callers of several teams share one API key, and PostgreSQL is killed too.
//
// In the end the record of the callers, the accounts of the catalog and the ledger must keep all of [promises.All].
//
//	faults    the table of all faults, and their points
//	world     the processes of a run, and the run itself
//	caller    places and repeats orders, and looks at its team's generations; one in four uses REST
//	relay     the connections from callers to facades, and from facades to the catalog
//	database  the connection from a facade to PostgreSQL
//	settled   waits for the end of all orders, and reads the truth about them
//	peer      finds the facade of a connection: a ledger belongs to one URL of the catalog
//
// Replicas have their own faults. Their catalog is a stub, whose generations end when the test ends them:
//
//	fleet     facades over one PostgreSQL, a stub catalog, and watches that reconnect to another facade
//	replicas  a facade, the database or the catalog is killed, stopped, cut off or replaced
//	tunnel    a connection that drops all bytes
//
// Copies of results are in a store, which is killed too:
//
//	results       Easel, a real store and the catalog are killed in turn while results are copied
//	gallery       the processes of that test
//	doors         a proxy that counts requests to the catalog
//
// All of it is test code, so that the program has no code for crashes. It needs Unix signals.
package torture
