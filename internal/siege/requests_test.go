package siege

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/easel-grpc/easel/internal/proctest"
)

// invoke sends a unary call with an encoded request and discards the response.
func invoke(ctx context.Context, conn *grpc.ClientConn, key, method string, body []byte) error {
	return conn.Invoke(proctest.Bearing(ctx, key), method, encoded(body), encoded(nil), grpc.ForceCodec(rawCodec{}))
}

// encodeField encodes a field of type bytes.
func encodeField(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// quotesAtOnce wraps a catalog so that it immediately returns the same quote for all inputs. This allows a test to measure
// only the work in Easel.
func quotesAtOnce(catalog http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/quote") {
			catalog.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"priceCents":2}`)
	})
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestAttackByLongQueryStringsDoesNotDelayOtherCallers(t *testing.T) {
	var query strings.Builder
	for n := 0; query.Len() < 30_000; n++ {
		fmt.Fprintf(&query, "%x&", n)
	}
	for name, attack := range map[string]struct{ path, credential string }{
		"a query without a credential":   {"/v1/generations?" + query.String(), ""},
		"a query with a made-up API key": {"/v1/generations?" + query.String(), "Bearer made-up-key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, siegeConfig{})
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true}}
			s.runAlongside(assault{
				workers: 4, least: 50, memory: 50 << 20, cpu: 5 * time.Millisecond,
				one: func(ctx context.Context, _ int) error { return s.get(ctx, client, attack.path, attack.credential) },
			})
		})
	}
}

// get sends a GET request over REST and discards the response. It returns an error if the status is not 200.
func (s *siege) get(ctx context.Context, client *http.Client, path, credential string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, map[bool]string{true: "http://", false: "https://"}[s.trust == nil]+s.HTTP+path, nil)
	if err != nil {
		return err
	}
	if credential != "" {
		r.Header.Set("Authorization", credential)
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err = io.Copy(io.Discard, answer.Body); err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return err
}
