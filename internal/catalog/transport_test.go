package catalog

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
)

func TestABurstTakesNoMoreConnectionsThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst = maxConns + 50
		release := make(chan struct{})
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			<-release
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n"+`{"balanceCents":7}`)
		}, reused: true}
		client := w.client(t, Config{})
		results := make(chan error, burst)
		for range burst {
			go func() {
				_, err := client.Account(context.Background(), testCredential)
				results <- err
			}()
		}
		synctest.Wait()
		if got := w.count(); got != maxConns {
			t.Errorf("%d requests are on their way at once, want %d", got, maxConns)
		}
		close(release)
		for range burst {
			if err := <-results; err != nil {
				t.Errorf("a request of the burst ended with %v", err)
			}
		}
		if got := w.count(); got != burst {
			t.Errorf("%d requests were made in all, want %d", got, burst)
		}
	})
}
