package proctest

import (
	"regexp"
	"strings"
	"testing"
)

// Dev is the command line that starts the whole stack on free ports, without the program.
func Dev(flags ...string) []string {
	return append([]string{
		"dev", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--speed", "20", "--seed", "1",
	}, flags...)
}

// DevReady reports whether the stack has printed all that its clients need.
func DevReady(stdout, _ string) bool { return strings.Contains(stdout, "Ctrl-C") }

// DevClients gives the environment of the clients of a stack that is ready, with the host and port of its
// REST API and of its admin server as REST and ADMIN.
func DevClients(t testing.TB, stdout string) map[string]string {
	t.Helper()
	return map[string]string{
		"EASEL_ADDR":    Find(t, `gRPC +(\S+)`, stdout),
		"EASEL_API_KEY": Find(t, `key +(\S+)`, stdout),
		"REST":          Find(t, `REST +http://(\S+)`, stdout),
		"ADMIN":         Find(t, `status +http://(\S+)`, stdout),
	}
}

// Find gives what the group of a pattern has matched.
func Find(t testing.TB, pattern, text string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("%s is not in\n%s", pattern, text)
	}
	return match[1]
}
