package systemtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestExtraBytesAfterCatalogResponseAreNotLogged(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hungUp := make(chan error, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { hungUp <- answerAndGoOn(conn) }()
		}
	}()
	served := proctest.Serve(t, map[string]string{"EASEL_UPSTREAM_URL": "http://" + l.Addr().String()})
	conn := proctest.Dial(t, served.GRPC)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer key_canary")
	quote, err := easelv1.NewGenerationServiceClient(conn).QuoteGeneration(ctx, &easelv1.QuoteGenerationRequest{
		ModelId: "studio/haiku", InputsJson: `{}`,
	})
	if err != nil || quote.GetQuote().GetPriceCents() != 7 {
		t.Fatal(quote, err)
	}
	for range []string{"the price", "the balance"} {
		if err := <-hungUp; err != nil { // err is nil if the server has closed the connection after the additional bytes
			t.Fatal(err)
		}
	}
	if code := served.Stop(); code != exitOK {
		t.Fatalf("the server exited with %d", code)
	}
	if text := served.Stderr.String(); strings.Contains(text, "canary") || !strings.Contains(text, "QuoteGeneration") {
		t.Errorf("the log contains the catalog's bytes, or lacks the call:\n%s", text)
	}
}

// answerAndGoOn sends a response and then more bytes than its Content-Length allows. It waits until the
// server closes the connection.
func answerAndGoOn(conn net.Conn) error {
	defer conn.Close()
	in := bufio.NewReader(conn)
	request, err := http.ReadRequest(in)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, request.Body); err != nil {
		return err
	}
	const body = `{"price":7,"balance":7}`
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(body), body, request.Header.Get("Authorization")); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in) // ignores errors, because the server may reset the connection
	return nil
}
