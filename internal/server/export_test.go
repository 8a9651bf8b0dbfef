package server

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/easel-grpc/easel/internal/rest"
	"github.com/easel-grpc/easel/internal/service"
)

// The server's default limits, which must match the table in docs/limits.md.
var (
	MessageBytes, HeaderBytes                 = Limits{}.maxRequest(), headerBytes
	CallerStreams, AllStreams                 = Limits{}.callerStreams(), Limits{}.streams()
	CallerCalls, AllCalls                     = Limits{}.callerCalls(), Limits{}.calls()
	CallerWatched, AllWatched                 = callerWatched, allWatched
	Conns, OperatorConns, StreamsPerConn      = Limits{}.conns(), operatorConns, Limits{}.streamsPerConn()
	ConnAge, DrainTimeout                     = Limits{}.connAge(), Config{}.drainTimeout()
	HandshakeTimeout, HeaderTimeout           = handshakeTimeout, headerTimeout
	RequestTimeout, IdleTimeout, WriteTimeout = rest.RequestTimeout, idleTimeout, writeTimeout
	VanishedTimeout, PingsMin                 = keepaliveIdle + keepaliveTimeout, keepaliveMinimum
)

// FullMethods returns the full names of the server's methods.
func FullMethods() map[string]bool {
	names := map[string]bool{}
	service.Methods(func(m protoreflect.MethodDescriptor) { names[service.FullMethod(m)] = true })
	return names
}

// LongLived reports whether calls of a method may stay open for a long time. The limit on streams applies to
// these calls.
func LongLived(method string) bool { return longLived[method] }

// Certified returns the TLS files of a server that requires client certificates, and the TLS configuration of a client.
// clientTemplate is the template for the client's certificate; if it is nil, the client has no certificate. The
// returned function changes the server's client CA.
func Certified(t *testing.T, clientTemplate *x509.Certificate) (files TLS, config *tls.Config, replace func()) {
	t.Helper()
	f := newTLSFiles(t, "server")
	f.ClientAuth = RequireClientCert
	return f.TLS, f.clientConfig(t, clientTemplate), func() { writeFile(t, f.ClientCAFile, newAuthority(t).pem()) }
}
