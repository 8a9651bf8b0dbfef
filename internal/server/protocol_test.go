package server

import (
	"crypto/x509"
	"fmt"
	"io"
	"testing"

	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestAClientOfTheWrongProtocolIsLogged(t *testing.T) {
	t.Parallel()
	files := newTLSFiles(t, "server")
	for want, test := range map[string]struct {
		tls  TLS
		send func(rw io.ReadWriter)
	}{
		tlsClient: {TLS{}, func(rw io.ReadWriter) {
			hello := append([]byte{0x16, 3, 1, 2, 0}, make([]byte, 512)...)
			_, _ = rw.Write(hello)
		}},
		plaintextClient: {files.TLS, func(rw io.ReadWriter) { _, _ = fmt.Fprint(rw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") }},
	} {
		t.Run(want, func(t *testing.T) {
			s := serve(t, servertest.NewStudio(), func(c *Config) { c.TLS = test.tls })
			for range 3 {
				conn, err := s.GRPCPipe.DialContext(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				test.send(conn)
				_, _ = io.Copy(io.Discard, conn) // until the server closes the connection
				_ = conn.Close()
			}
			if lines := s.Lines(t, want); len(lines) != 1 || lines[0]["peer"] == nil {
				t.Errorf("the lines are %v", lines)
			}
		})
	}
}

func TestAClientOfTheRightProtocolIsNotLogged(t *testing.T) {
	files := newTLSFiles(t, "server")
	s := serve(t, servertest.NewStudio(), func(c *Config) { c.TLS = files.TLS })
	if _, err := s.getOverTLS(t, files.clientConfig(t, &x509.Certificate{DNSNames: []string{"shop.test"}})); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{plaintextClient, tlsClient} {
		if lines := s.Lines(t, message); len(lines) != 0 {
			t.Errorf("the lines are %v", lines)
		}
	}
}
