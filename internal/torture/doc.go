// Package torture kills the real program while it spends money.
//
// Callers order through two real facades in front of one real sandbox with its books in a
// file, each a process of its own. Between them stand connections that see every byte. They
// cut, reset or swallow what passes, and they kill a process at an exact point of an order:
// before it is sent, in the middle of its bytes, once the catalog has taken it, in the
// middle of the answer, before the caller hears, after. A process that was killed is started
// again, callers send their idempotency keys again, to whichever facade is there.
//
// In the end the books must hold exactly one charge for each order, every caller must know
// the render of its order, the same key must still lead to it, and every file must be whole.
//
//	process   a program that runs, and is killed
//	keeper    starts it again and decides where it dies next
//	wire      the connection from a facade to the catalog
//	line      the connection from a caller to a facade
//	caller    orders, and orders again; three in four speak gRPC, the others REST
//	books     what must be true in the end, and the table of figures
//
// Beside the kills stand two troubles that only a real process and a real network have:
//
//	stack     one facade, one sandbox, and a tunnel between them
//	hole      the tunnel swallows everything
//	stopped   the facade is stopped, and goes on later
//
// Replicas that share their polls have troubles of their own. The catalog before them is a meter, whose
// renders end when they are told to:
//
//	fleet      three facades, NATS, a meter, and watches that go to another facade when theirs breaks off
//	replicas   a facade or NATS is killed, stopped, cut off or replaced
//	namespace  the same cut, by the kernel: each facade has a network of its own
//
// All of it is test code, so that no way to crash is in the program. It needs the signals of unix.
package torture
