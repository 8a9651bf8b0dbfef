package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/crossorigin"
	"github.com/easel-grpc/easel/internal/terminal"
)

// adminFlags contains the flags for a server's admin address and the operator's credential.
type adminFlags struct {
	AdminAddr string `env:"EASEL_ADMIN_ADDR" default:"127.0.0.1:9464" placeholder:"HOST:PORT" help:"The server's admin address."`
	cli.KeyFlags
}

// listFlags contains the flags of a command that prints a list from the admin address.
type listFlags struct {
	adminFlags
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"Format of the output: table or json."`
}

// since is the value of the flag --since. Items before this time are not listed.
type since struct{ time.Time }

// UnmarshalText parses an RFC 3339 time, or an age such as 48h, which it subtracts from the current time.
func (s *since) UnmarshalText(text []byte) (err error) {
	if ago, err := time.ParseDuration(string(text)); err == nil && ago >= 0 {
		s.Time = time.Now().Add(-ago)
		return nil
	}
	if s.Time, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return errors.New("must be a time such as 2027-01-31T12:00:00Z, or an age such as 48h")
	}
	return nil
}

// adminTimeout is the timeout of a request to the admin address.
const adminTimeout = 15 * time.Second

// postJSON sends a POST request to the admin address, with payload as the JSON body. It decodes the JSON body of the
// response into response.
func (f *adminFlags) postJSON(ctx context.Context, p *cli.Program, path string, payload, response any) error {
	body, _ := json.Marshal(payload) // cannot fail for the request types of package admin
	text, err := f.sendRequest(ctx, p, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, response)
}

// readList requests a list from the admin address. query is the request, which is encoded in the URL. readList returns
// the items of the list, and the response body as text that is safe to print on a terminal.
func readList[T any](ctx context.Context, p *cli.Program, f *adminFlags, path string, query any) (items []T, text string, err error) {
	body, err := f.sendRequest(ctx, p, http.MethodGet, admin.Address(path, query), nil)
	if err != nil {
		return nil, "", err
	}
	var lists map[string][]T // the response is an object whose only member is the list
	err = json.Unmarshal(body, &lists)
	for _, list := range lists {
		items = append(items, list...)
	}
	return items, terminal.Sanitize(string(body)), err
}

// printList prints a list from the admin address, either as JSON or as a table. header contains the column titles of the
// table, separated by tabs. cellsOf returns the cells for one item.
func printList[T any](ctx context.Context, p *cli.Program, f *listFlags, path string, query any, header string, cellsOf func(T) []string) error {
	items, text, err := readList[T](ctx, p, &f.adminFlags, path, query)
	if err != nil {
		return err
	}
	if f.Output == "json" {
		return printResult(p, text)
	}
	var rows [][]terminal.Cell
	for _, one := range items {
		rows = append(rows, terminal.Cells(cellsOf(one)...))
	}
	return printTable(p.Console(), header, rows)
}

// printTable prints rows as a table. header contains the column titles, separated by tabs.
func printTable(console *terminal.Console, header string, rows [][]terminal.Cell) error {
	if len(rows) == 0 {
		console.Print("Nothing found.")
		return console.Err()
	}
	console.Table(strings.Split(header, "\t"), rows)
	return console.Err()
}

// printResult prints text, the result of a command. It returns an error if the text can't be written.
func printResult(p *cli.Program, text string) error {
	console := p.Console()
	console.PrintText(text)
	return console.Err()
}

// sendRequest sends a request to the admin address, and returns the response body.
func (f *adminFlags) sendRequest(ctx context.Context, p *cli.Program, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	request, err := f.newRequest(ctx, p, method, path, body)
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // following a redirect could send the key to another host
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, &cli.Problem{Exit: cli.ExitRetry, Text: "the server does not answer at the admin address " + request.URL.Host, Cure: "Set --admin-addr to the server's admin address.", Err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	return text, refusedByAdmin(answer.StatusCode, strings.TrimSpace(string(text)), request)
}

// newRequest returns a request to the admin address, with the operator's key. It returns an error if the key would be
// sent unencrypted to another machine and --allow-plaintext is not set.
func (f *adminFlags) newRequest(ctx context.Context, p *cli.Program, method, path string, body []byte) (*http.Request, error) {
	addr := f.AdminAddr
	if strings.HasPrefix(addr, ":") {
		addr = "localhost" + addr
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return nil, wrongSetting("EASEL_ADMIN_ADDR", err)
	}
	key, err := f.Key(p)
	if err != nil || key == "" {
		return request, err
	}
	if !crossorigin.IsLoopback(addr) && !f.AllowPlaintext {
		return nil, &cli.Problem{
			Exit: cli.ExitUsage, Text: "the key would be sent without TLS to " + addr,
			Cure: "Reach the admin address through a tunnel to this machine, or set EASEL_ALLOW_PLAINTEXT=true if something else encrypts the connection.",
		}
	}
	request.Header.Set("Authorization", "Bearer "+key)
	return request, nil
}

// refusedByAdmin converts an error response from the admin address to an error for the user. code and text are the
// status code and the body of the response. If the request succeeded, refusedByAdmin returns nil.
func refusedByAdmin(code int, text string, request *http.Request) error {
	problem := &cli.Problem{Exit: cli.ExitUsage, Text: text}
	switch {
	case code < http.StatusMultipleChoices:
		return nil
	case code == http.StatusNotFound:
		problem.Text, problem.Cure = "there is no "+request.URL.Path+" at "+request.URL.Host, "Set --admin-addr to the server's admin address."
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		problem.Exit, problem.Cure = cli.ExitCredential, "Set EASEL_API_KEY to the token of an operator in the callers file, or --api-key-file to a file with it."
	case code == http.StatusServiceUnavailable:
		problem.Exit = cli.ExitRetry
	}
	return problem
}
