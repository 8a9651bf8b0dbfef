package proctest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// Settings contains the values of environment variables, keyed by name.
type Settings map[string]string

// With returns a copy of s to which the variables of more are added. If a variable is in both, the copy has its value
// from more.
func (s Settings) With(more Settings) Settings {
	all := Settings{}
	maps.Copy(all, s)
	maps.Copy(all, more)
	return all
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

// freePorts contains the settings with which a server listens on free ports.
var freePorts = Settings{
	"EASEL_GRPC_ADDR": "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0", "EASEL_SANDBOX_ADDR": "127.0.0.1:0",
}

// TryLaunch starts one of Easel's servers and waits until it listens. If the server does not listen, TryLaunch kills it and
// returns an error that contains its output.
//
// program is the path of the easel program, which may be a different version than the program from [Easel]. words contains
// the command (serve, sandbox or dev) and its flags. The environment of the process contains only the given settings, and free
// ports for the addresses that the settings do not contain.
func TryLaunch(t testing.TB, program string, settings Settings, words ...string) (*Process, error) {
	p := Start(t, Environ(freePorts.With(settings)), append([]string{program}, words...)...)
	for pattern, found := range map[string]map[string]*string{
		"serve":   {`"server":"grpc","addr":"([^"]+)"`: &p.GRPC, `"server":"http","addr":"([^"]+)"`: &p.HTTP, `"server":"admin","addr":"([^"]+)"`: &p.Admin},
		"sandbox": {`(http://\S+/catalog)`: &p.Catalog, `http://([^/\s]+)/`: &p.HTTP, `Its key .*:\n +(\S+)\n`: &p.Key, `Ctrl-C`: new(string)},
		"dev": {
			`(?m)^  gRPC +(\S+)$`: &p.GRPC, `(?m)^  REST +http://(\S+)$`: &p.HTTP, `(?m)^  status +http://(\S+) `: &p.Admin,
			`(?m)^  key +(\S+) `: &p.Key, `Ctrl-C`: new(string),
		},
	}[words[0]] {
		text, err := p.Await(0, pattern, startLimit)
		if err != nil {
			p.Kill()
			return nil, err
		}
		*found = text
	}
	return p, nil
}

// Launch starts a server with [TryLaunch] and the program that [Easel] returns. It fails the test if the server does not
// listen.
func Launch(t testing.TB, settings Settings, words ...string) *Process {
	t.Helper()
	p, err := TryLaunch(t, Easel(t), settings, words...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Serve starts 'easel serve' with the given settings.
func Serve(t testing.TB, settings Settings) *Process {
	t.Helper()
	return Launch(t, settings, "serve")
}

// Sandbox starts 'easel sandbox' with the given flags.
func Sandbox(t testing.TB, flags ...string) *Process {
	t.Helper()
	return Launch(t, nil, append([]string{"sandbox"}, flags...)...)
}

// StartDev starts 'easel dev' with the given flags.
func StartDev(t testing.TB, flags ...string) *Process {
	t.Helper()
	return Launch(t, nil, Dev(flags...)...)
}

// Dial returns a connection without TLS to a server. It is closed at the end of the test.
func Dial(t testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Bearing returns a context for calls that send the given bearer token. If token is empty, it returns ctx.
func Bearing(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}
