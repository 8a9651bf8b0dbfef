package main

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"
)

// askAgain asks the admin address, and reports whether that went over a connection that was open.
func (c *changing) askAgain(client *http.Client, path, token string) (again bool) {
	c.Helper()
	ctx := httptrace.WithClientTrace(c.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { again = got.Reused }})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.admin+path, nil)
	if err != nil {
		c.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err = io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		c.Fatal(path, answer.Status, err)
	}
	return again
}

func TestTheConnectionOfAnOperatorOutlivesACrowd(t *testing.T) {
	t.Parallel()
	c := startChanging(t, nil)
	clients := map[string]*http.Client{}
	for _, token := range []string{"", "ops-token"} {
		clients[token] = &http.Client{Transport: &http.Transport{}}
		defer clients[token].CloseIdleConnections()
		c.askAgain(clients[token], "/loglevel", token)
	}
	for range 64 {
		one := &http.Client{Transport: &http.Transport{}}
		defer one.CloseIdleConnections()
		c.askAgain(one, "/healthz", "")
	}
	if !c.askAgain(clients["ops-token"], "/loglevel", "ops-token") {
		t.Error("the connection of an operator has made room")
	}
	if c.askAgain(clients[""], "/loglevel", "") {
		t.Error("the connection of nobody is still there: there was no crowd")
	}
}
