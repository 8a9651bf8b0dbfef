package server

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/rest"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestABodyThatDoesNotComeIsGivenUp(t *testing.T) { // fault L9
	for _, test := range []struct {
		name, header string
		code         int
	}{
		{"of an order", "Authorization: Bearer key\r\n", http.StatusRequestTimeout},
		{"of nobody who may call", "", http.StatusUnauthorized},
		{"that is refused anyway", "Authorization: Bearer key\r\nContent-Type: text/plain\r\n", http.StatusUnsupportedMediaType},
		{"of another origin", "Origin: http://evil.test\r\n", http.StatusForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, servertest.NewStudio())
				conn := dialPipe(t, s.HTTPPipe)
				defer conn.Close()
				began := time.Now()
				_, err := io.WriteString(conn, "POST /v1/generations HTTP/1.1\r\nHost: easel.test\r\n"+test.header+"Content-Length: 100\r\n\r\n{\"modelId\":")
				if err != nil {
					t.Fatal(err)
				}
				all := bufio.NewReader(conn)
				answer, err := http.ReadResponse(all, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				if answer.StatusCode != test.code {
					t.Errorf("the response is %s", answer.Status)
				}
				if _, err := io.Copy(io.Discard, all); err != nil { // the copy ends when the server closes the connection
					t.Fatal(err)
				}
				if took := time.Since(began); took > rest.RequestTimeout+time.Second {
					t.Errorf("the connection was held for %v", took)
				}
			})
		})
	}
}

func TestHeadersThatDoNotComeAreGivenUp(t *testing.T) { // fault L9
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		conn := dialPipe(t, s.HTTPPipe)
		defer conn.Close()
		began := time.Now()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost:"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != headerTimeout {
			t.Errorf("the connection is held for %v", took)
		}
	})
}
