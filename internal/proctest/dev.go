package proctest

import (
	"regexp"
	"strings"
	"testing"
)

// Dev returns the arguments that run 'easel dev' on free ports, followed by the given flags.
func Dev(flags ...string) []string {
	return append([]string{
		"dev", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--speed", "20", "--seed", "1",
	}, flags...)
}

// DevReady reports whether 'easel dev' has printed all the information that clients need.
func DevReady(stdout, _ string) bool { return strings.Contains(stdout, "Ctrl-C") }

// DevClients returns the environment variables for clients of a running 'easel dev', whose standard output is stdout.
// The variables REST and ADMIN contain the addresses of the REST API and the admin server.
func DevClients(t testing.TB, stdout string) Settings {
	t.Helper()
	return Settings{
		"EASEL_ADDR":    Find(t, `gRPC +(\S+)`, stdout),
		"EASEL_API_KEY": Find(t, `key +(\S+)`, stdout),
		"REST":          Find(t, `REST +http://(\S+)`, stdout),
		"ADMIN":         Find(t, `status +http://(\S+)`, stdout),
	}
}

// Find returns the part of text that matches the first group of pattern. It fails the test if the pattern does not
// match.
func Find(t testing.TB, pattern, text string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("output does not match %s:\n%s", pattern, text)
	}
	return match[1]
}
