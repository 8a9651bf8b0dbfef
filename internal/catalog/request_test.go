package catalog

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestNewClientRejectsInvalidBaseURL(t *testing.T) {
	for base, want := range map[string]string{
		"https://catalog.example":                          "",
		"https://catalog.example:8443/api/v1/api/catalog/": "",
		"HTTPS://catalog.example/a%2Fb":                    "",
		"http://localhost:8080":                            "",
		"http://127.0.0.1/x":                               "",
		"http://127.8.9.1":                                 "",
		"http://[::1]:80":                                  "",
		"":                                                 "is empty",
		"catalog.example/api":                              "must begin with https://",
		"//catalog.example":                                "must begin with https://",
		"ftp://catalog.example":                            "must begin with https://",
		"https://":                                         "has no host",
		"https://:443/x":                                   "has no host",
		"https:catalog.example":                            "has no host",
		"https://user:hunter2@catalog.example":             "must not contain a user",
		"https://user@catalog.example":                     "must not contain a user",
		"https://catalog.example/?a=b":                     "must not have a query",
		"https://catalog.example/?":                        "must not have a query",
		"https://catalog.example/#x":                       "must not have a query or fragment",
		"https://catalog.example/#":                        "must not have a query or fragment",
		"http://catalog.example":                           "must be https for host catalog.example",
		"http://localhost.example":                         "must be https",
		"http://10.0.0.1":                                  "must be https",
		"https://catalog.example/\x7f":                     "is invalid",
		"https://user:hunter2@catalog.example:port":        "is invalid",
	} {
		_, err := New(Config{BaseURL: base})
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q: got %v, want %q", base, err, want)
		}
	}
	if _, err := New(Config{BaseURL: "http://catalog.example", AllowInsecure: true}); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{BaseURL: testURL, AttemptTimeout: -1}); err == nil {
		t.Error("a negative timeout was accepted")
	}
}

func TestUnsafeIDIsRejectedBeforeRequestIsSent(t *testing.T) {
	c := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) { panic("sent to " + r.URL.String()) }))
	for _, id := range []string{
		"", ".", "..", "../me", "a/../b", "a/..", "./a", `..\me`, "a\r\nX-Evil: 1", "a\x00b", "a\tb", "\x7f", "\xff", strings.Repeat("x", 257), strings.Repeat("x", 10_000),
	} {
		for field, call := range map[string]func() error{
			"generation_id":   func() error { _, err := c.Generation(t.Context(), testCredential, id); return err },
			"generation_id ":  func() error { return c.Delete(t.Context(), testCredential, id) },
			"generation_id  ": func() error { _, err := c.Content(t.Context(), testCredential, id, 0, ""); return err },
			"model_id":        func() error { _, err := c.Model(t.Context(), testCredential, id); return err },
			"model_id ":       func() error { _, err := c.Quote(t.Context(), testCredential, id, []byte(`{}`)); return err },
		} {
			e := asError(t, call())
			if e.Kind != KindInvalidInput || len(e.Violations) != 1 || e.Violations[0].Field != strings.TrimSpace(field) {
				t.Errorf("%.20q: got %+v", id, e)
			}
		}
	}
}

func TestEveryRequestHasRequiredHeaders(t *testing.T) {
	for op, call := range calls {
		var sent *http.Request
		var body []byte
		_ = call(t.Context(), newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r
			if r.Body != nil {
				body, _ = io.ReadAll(r.Body)
			}
			return reply(r, 400, nil, ""), nil
		})))
		if sent.Pattern != op || sent.Method+" " != op[:len(sent.Method)+1] || sent.GetBody != nil || len(body) != int(sent.ContentLength) {
			t.Errorf("%s: sent as %s %q with %d bytes", op, sent.Method, sent.Pattern, sent.ContentLength)
		}
		if sent.Header.Get("Authorization") != "Bearer "+testKey || sent.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: sent with the headers %v", op, sent.Header)
		}
		if (sent.Header.Get("Idempotency-Key") == "k") != (op == OpCreate) {
			t.Errorf("%s: idempotency key %q", op, sent.Header.Get("Idempotency-Key"))
		}
	}
}

func TestInputsAreSentByteForByte(t *testing.T) {
	inputs := "{ \"seed\": 9007199254740993, \"x\":1.10,\"x\":1e2,\n\"prompt\":\"<ü\\u00fc>\" }"
	var body []byte
	c := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
		body, _ = io.ReadAll(r.Body)
		return reply(r, 200, nil, `{"id":"g","cents":1}`), nil
	}))
	want := `{"modelId":"a/\"b\"","inputs":` + inputs + `}`
	if _, err := c.Quote(t.Context(), testCredential, `a/"b"`, []byte(inputs)); err != nil || string(body) != want {
		t.Errorf("%v, sent %s", err, body)
	}
	body = nil
	order := Order{ModelID: `a/"b"`, Inputs: []byte(inputs), IdempotencyKey: "k"}
	if _, _, err := c.Post(t.Context(), testCredential, order); err != nil || string(body) != want {
		t.Errorf("%v, sent %s", err, body)
	}
}

func TestAnInvalidOrderIsNotSent(t *testing.T) {
	c := newTestClient(t, roundTrip(func(*http.Request) (*http.Response, error) { panic("sent") }))
	for _, inputs := range []string{``, `null`, `[]`, `7`, `{`, `{},"modelId":"x"`, `{}{}`, "{\"a\":\"\xff\"}", "\uFEFF{}"} {
		_, posted, err := c.Post(t.Context(), testCredential, Order{ModelID: "m", Inputs: []byte(inputs), IdempotencyKey: "k"})
		if e := asError(t, err); e.Kind != KindInvalidInput || e.Violations[0].Field != "inputs" || posted != NotSent {
			t.Errorf("%q: got %v", inputs, err)
		}
	}
	for _, key := range []string{"", "a b", "a\nb", "a\x00", "ü", strings.Repeat("k", 257)} {
		_, posted, err := c.Post(t.Context(), testCredential, Order{ModelID: "m", Inputs: []byte(`{}`), IdempotencyKey: key})
		if e := asError(t, err); e.Kind != KindInvalidInput || e.Violations[0].Field != "idempotency_key" || posted != NotSent {
			t.Errorf("%q: got %v", key, err)
		}
	}
}

func TestRedirectsAreNotFollowedByDefault(t *testing.T) {
	for _, to := range []string{
		"http://elsewhere.example", "https://elsewhere.example/", testURL + "/followed", "/followed", "//elsewhere.example", "", "::not a url", "https://other.invalid/",
	} {
		for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308} {
			for op, call := range calls {
				sent := 0
				c := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
					sent++
					return reply(r, status, http.Header{"Location": {to}}, ""), nil
				}))
				want := KindRedirect
				if op == OpCreate && status != 307 && status != 308 {
					want = KindOutcomeUnknown
				}
				if e := asError(t, call(t.Context(), c)); e.Kind != want || e.Status != status || !strings.Contains(e.Message, "base URL") || sent != 1 {
					t.Errorf("%s: redirect with status %d to %q: got %v after %d requests", op, status, to, e, sent)
				}
			}
		}
	}
}

func TestTheContentURLIsNeverDialed(t *testing.T) {
	var paths []string
	c := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
		paths = append(paths, r.URL.String())
		return reply(r, 200, nil, `{"id":"g1","status":"succeeded","contentUrl":"http://169.254.169.254/latest"}`), nil
	}))
	for _, op := range []string{opGeneration, opContent} {
		if err := calls[op](t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	want := fmt.Sprint([]string{testURL + "/generations/g1", testURL + "/generations/g1/content"})
	if fmt.Sprint(paths) != want {
		t.Errorf("requested %v, want %v", paths, want)
	}
}

func TestTheTransportNeverSendsAnOrderTwice(t *testing.T) {
	var posts atomic.Int64
	w := &wire{reused: true, answer: func(_ int, _ *http.Request, conn net.Conn) {
		if posts.Add(1) == 2 {
			conn.Close() // closes the connection after the complete request was read
			return
		}
		io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: 11\r\n\r\n{\"id\":\"g1\"}")
	}}
	synctest.Test(t, func(t *testing.T) {
		c := w.client(t, Config{})
		if err := calls[OpCreate](t.Context(), c); err != nil {
			t.Fatal(err)
		}
		err := calls[OpCreate](t.Context(), c) // sends the second order over the same connection
		if KindOf(err) != KindOutcomeUnknown || posts.Load() != 2 {
			t.Errorf("got %v after %d requests", err, posts.Load())
		}
		synctest.Wait()
	})
}

// endless is a body that never ends. It counts the bytes that were read.
type endless struct {
	text  string
	taken atomic.Int64
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text)
	}
	e.taken.Add(int64(n))
	return n, nil
}

func (e *endless) Close() error { return nil }

func TestResponseBodySizeIsLimited(t *testing.T) {
	for op, call := range calls {
		if op == opContent {
			continue
		}
		for _, status := range []int{200, 400, 500} {
			body := &endless{text: " "}
			c := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
				resp := reply(r, status, nil, "")
				resp.Body, resp.ContentLength = body, -1
				return resp, nil
			})).Polls()
			err := call(t.Context(), c)
			limit := int64(maxRecord)
			switch op {
			case opGenerations:
				limit = maxList
			case opModels:
				limit = maxModels
			}
			if status != 200 || op == opDelete {
				limit = maxFailure
			}
			if body.taken.Load() > limit*2 || (err == nil) != (op == opDelete && status == 200) {
				t.Errorf("%s, %d: read %d bytes, %v", op, status, body.taken.Load(), err)
			}
		}
	}
}

func TestResponseWithTooLargeContentLengthIsNotRead(t *testing.T) {
	body := &endless{text: " "}
	_, err := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
		resp := reply(r, 200, nil, "")
		resp.Body, resp.ContentLength = body, 1<<30
		return resp, nil
	})).Models(t.Context(), testCredential)
	if KindOf(err) != KindMalformed || body.taken.Load() != 0 || !strings.Contains(err.Error(), "too large") {
		t.Errorf("read %d bytes, %v", body.taken.Load(), err)
	}
}

func TestDrippingResponseBodyTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
			for err := error(nil); err == nil; _, err = io.WriteString(conn, " ") {
				time.Sleep(time.Second)
			}
		}}
		start := time.Now()
		_, err := w.client(t, Config{}).Polls().Account(t.Context(), testCredential)
		if KindOf(err) != KindUnavailable || time.Since(start) != 15*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		time.Sleep(time.Second) // waits until the catalog's goroutine notices that the connection is closed
	})
}

func TestEndlessResponseHeaderIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			for n, err := 0, error(nil); err == nil; sent.Add(int64(n)) {
				n, err = io.WriteString(conn, "X-A: "+strings.Repeat("a", 1000)+"\r\n")
			}
		}}
		_, err := w.client(t, Config{}).Polls().Account(t.Context(), testCredential)
		if KindOf(err) != KindUnavailable || sent.Load() > 1<<20 {
			t.Errorf("got %v after %d bytes", err, sent.Load())
		}
		synctest.Wait()
	})
}

func TestCompressedResponseIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08")
		}}
		c := w.client(t, Config{})
		if _, err := c.Account(t.Context(), testCredential); KindOf(err) != KindMalformed {
			t.Errorf("got %v", err)
		}
		if _, err := c.Content(t.Context(), testCredential, "g1", 0, ""); KindOf(err) != KindContract {
			t.Errorf("got %v", err)
		}
	})
}

func TestTruncatedResponseIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, raw := range []string{
			"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"id\":\"g\",\"status\":\"queued\"}",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1c\r\n{\"id\":\"g\",\"status\":\"queued\"}",
			"HTTP/1.1 200 OK\r\nContent-Le",
			"",
		} {
			w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) { io.WriteString(conn, raw) }}
			c := w.client(t, Config{}).Polls()
			if err := calls[opGeneration](t.Context(), c); KindOf(err) != KindUnavailable {
				t.Errorf("%q: got %v", raw, err)
			}
			if err := calls[OpCreate](t.Context(), c); KindOf(err) != KindOutcomeUnknown {
				t.Errorf("%q: got %v", raw, err)
			}
		}
	})
}
