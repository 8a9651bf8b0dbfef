package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/terminal"
)

// adminFlags has the admin address of a server and the credential of the operator.
type adminFlags struct {
	AdminAddr string `env:"EASEL_ADMIN_ADDR" default:"127.0.0.1:9464" placeholder:"HOST:PORT" help:"The admin address of the server."`
	cli.KeyFlags
}

// adminTimeout is the timeout of a request to the admin address.
const adminTimeout = 15 * time.Second

// ask sends a request to the admin address, with asked as JSON, and returns the body of a successful response.
func (f *adminFlags) ask(ctx context.Context, p *cli.Program, method, path string, asked any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	request, err := f.request(ctx, p, method, path, asked)
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // no other host gets the key
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, &cli.Problem{Exit: cli.ExitRetry, Text: "the admin address of the server does not answer at " + request.URL.Host, Cure: "--admin-addr names another", Err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	return text, refusedByAdmin(answer.StatusCode, strings.TrimSpace(string(text)), path, request.URL.Host)
}

// request returns a request to the admin address, with the key of the operator. It never sends the key to another machine
// unencrypted, unless that is allowed.
func (f *adminFlags) request(ctx context.Context, p *cli.Program, method, path string, asked any) (*http.Request, error) {
	var body bytes.Buffer
	if asked != nil {
		if err := json.NewEncoder(&body).Encode(asked); err != nil {
			return nil, err
		}
	}
	addr := f.AdminAddr
	if strings.HasPrefix(addr, ":") {
		addr = "localhost" + addr
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, &body)
	if err != nil {
		return nil, wrongSetting("EASEL_ADMIN_ADDR", err)
	}
	key, err := f.Key(p)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return request, nil
	}
	if host, _, _ := net.SplitHostPort(addr); !isLoopback(host) && !f.AllowPlaintext {
		return nil, &cli.Problem{
			Exit: cli.ExitUsage, Text: "the key would be sent without TLS to " + addr,
			Cure: "Reach the admin address through a tunnel to this machine, or set EASEL_ALLOW_PLAINTEXT=true if something else encrypts.",
		}
	}
	request.Header.Set("Authorization", "Bearer "+key)
	return request, nil
}

// refusedByAdmin returns the problem in a response of the admin address, or nil.
func refusedByAdmin(code int, text, path, addr string) error {
	problem := &cli.Problem{Exit: cli.ExitUsage, Text: text}
	switch {
	case code < http.StatusMultipleChoices:
		return nil
	case code == http.StatusNotFound:
		problem.Text, problem.Cure = "there is no "+path+" at "+addr, "--admin-addr names the admin address of the server"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		problem.Exit, problem.Cure = cli.ExitCredential, "Set EASEL_API_KEY to the token of an operator in the callers file, or --api-key-file to a file with it."
	case code == http.StatusServiceUnavailable:
		problem.Exit = cli.ExitRetry
	}
	return problem
}

// list prints a list of the admin address, one row for each item: as JSON, or as a table for people.
func list[T any](ctx context.Context, p *cli.Program, f *adminFlags, path, output, header string, row func(T) []string) error {
	text, err := f.ask(ctx, p, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if output == "json" {
		console := p.Console()
		console.PrintText(terminal.Sanitize(string(text)))
		return console.Err()
	}
	var answer map[string][]T
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	var rows [][]terminal.Cell
	for _, all := range answer {
		for _, one := range all {
			rows = append(rows, terminal.Cells(row(one)...))
		}
	}
	return printTable(p.Console(), header, rows)
}

// printTable prints rows below a header with tabs.
func printTable(console *terminal.Console, header string, rows [][]terminal.Cell) error {
	if len(rows) == 0 {
		console.Print("Nothing found.")
		return console.Err()
	}
	console.Table(strings.Split(header, "\t"), rows)
	return console.Err()
}
