package proctest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Serve starts 'easel serve' on free ports with only the given settings. It waits until the server listens.
func Serve(t testing.TB, settings map[string]string) *Process {
	t.Helper()
	env := map[string]string{"EASEL_GRPC_ADDR": "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0"}
	maps.Copy(env, settings)
	p := Start(t, Environ(env), Easel(t), "serve")
	p.Ready(t, Listening)
	return p
}

// Environ returns environment variables in the format that [Start] expects, sorted by name.
func Environ(env map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

// Listening reports whether 'easel serve' has logged the addresses of all three listeners.
func Listening(_, stderr string) bool { return strings.Count(stderr, `"listening"`) == 3 }

// Address returns the address of a listener. server is "grpc", "http" or "admin".
func (p *Process) Address(t testing.TB, server string) string {
	t.Helper()
	return Find(t, `"server":"`+server+`","addr":"([^"]+)"`, p.Stderr.String())
}
