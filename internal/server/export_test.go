package server

// What the table of limits in docs/limits.md must say, for the test that reads it.
var (
	MessageBytes, HeaderBytes                 = Limits{}.messageBytes(), headerBytes
	RequestBytes, CallerRequestBytes          = Limits{}.requestBytes(), newRequestBytes(Limits{}.requestBytes()).limit("a caller")
	UnverifiedRequestBytes                    = newRequestBytes(Limits{}.requestBytes()).limit("")
	UnverifiedStreams, UnverifiedCalls        = newAdmission(Limits{}, nil).unverifiedStreams.limit, newAdmission(Limits{}, nil).unverifiedCalls.limit
	UnverifiedGenerations                     = newAdmission(Limits{}, nil).unverifiedGenerations.limit
	UnverifiedWait                            = unverifiedWait
	CallerStreams, AllStreams                 = Limits{}.callerStreams(), Limits{}.streams()
	CallerGenerations, AllGenerations         = callerGenerations, allGenerations
	ConnsEach, StreamsPerConn                 = Limits{}.conns(), Limits{}.streamsPerConn()
	CallLimits                                = newCallLimiter(Limits{}.calls()).limit
	ConnAge, DrainTimeout                     = Limits{}.connAge(), Config{}.drainTimeout()
	HandshakeTimeout, HeaderTimeout           = handshakeTimeout, headerTimeout
	RequestTimeout, IdleTimeout, WriteTimeout = requestTimeout, idleTimeout, writeTimeout
	CallWait, VanishedTimeout, PingsMin       = callWait, keepaliveIdle + keepaliveTimeout, keepaliveMinimum
)

// FullMethods are the calls that the server knows.
var FullMethods = fullMethods

// HasPriority reports whether a call waits for a place, by a priority of its own.
func HasPriority(method string) bool { _, ok := priorityOf[method]; return ok }

// LongLived reports whether a call counts as a stream and waits for no place.
func LongLived(method string) bool { return longLived[method] }
