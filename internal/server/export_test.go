package server

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/service"
)

// What the table of limits in docs/operating.md must say, for the test that reads it.
var (
	MessageBytes, HeaderBytes                 = messageBytes, headerBytes
	CallerStreams, AllStreams                 = Limits{}.callerStreams(), Limits{}.streams()
	CallerGenerations, AllGenerations         = callerGenerations, allGenerations
	ConnsEach, StreamsPerConn                 = Limits{}.conns(), Limits{}.streamsPerConn()
	Calls, WaitingCalls, CallWait             = turnsOf(Limits{}.calls()), waitingShare * Limits{}.calls(), callWait
	CallerTurns                               = callerTurns(Limits{}.calls())
	PlaceBytes, ConnBytes, CallMemory         = placeBytes, connBytes, callMemory(Limits{}.calls())
	AddressCalls, PublicCalls                 = addressCalls, publicCalls
	AllChecks                                 = allChecks
	OperatorConnsOfAddress, OperatorConns     = operatorConnsOfAddress, operatorConns
	AddressRefusals, AllRefusals              = addressRefusals, allRefusals
	UnprovedKey, UnprovedAddress, Unproved    = unprovedKeyCalls, unprovedAddressCalls, unprovedCalls
	UnprovedAll, StreamWindow                 = withSpare(unprovedCalls), streamWindow
	PublicPlaces, PublicBytes                 = publicPlaces, publicBytes
	PagePlaces, PageBytes                     = pagePlaces, pageBytes
	RefusalPlaces, RefusalBytes               = refusalPlaces, refusalBytes
	CopyReaders, CopyBytes                    = content.CopyReaders, copyBytes
	MemoryOfCallers, MemoryOfNobody           = memoryOfCallers(), memoryOfNobody()
	IdleBytes                                 = idleBytes
	ProofWait, RejectedFor                    = proofWait, rejectedFor
	ConnAge, DrainTimeout                     = Limits{}.connAge(), Config{}.drainTimeout()
	HandshakeTimeout, HeaderTimeout           = handshakeTimeout, headerTimeout
	RequestTimeout, IdleTimeout, WriteTimeout = requestTimeout, idleTimeout, writeTimeout
	PublicTimeout                             = publicTimeout
	VanishedTimeout, PingsMin                 = keepaliveIdle + keepaliveTimeout, keepaliveMinimum
)

// FullMethods are the calls that the server knows.
func FullMethods() map[string]bool {
	names := map[string]bool{}
	service.Methods(func(m protoreflect.MethodDescriptor) { names[service.FullMethod(m)] = true })
	return names
}

// HasClass reports whether a call waits for its turn.
func HasClass(method string) bool { _, ok := classOf[method]; return ok }

// LongLived reports whether a call counts as a stream.
func LongLived(method string) bool { return longLived[method] }

// Certified are the files of a server that wants certificates, a client that has one, and what puts another authority in
// their place.
func Certified(t *testing.T, client *x509.Certificate) (files TLS, config *tls.Config, replace func()) {
	t.Helper()
	f := newTLSFiles(t, "server")
	f.ClientAuth = RequireClientCert
	return f.TLS, f.clientConfig(t, client), func() { writeFile(t, f.ClientCAFile, newAuthority(t).pem()) }
}
