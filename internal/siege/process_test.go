package siege

import (
	"context"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(proctest.Main(m))
}

// serve starts a server on free ports with only the given environment.
func serve(t *testing.T, settings map[string]string) *proctest.Process {
	t.Helper()
	env := map[string]string{"EASEL_GRPC_ADDR": "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0"}
	maps.Copy(env, settings)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	p := proctest.Start(t, all, proctest.Easel(t), "serve")
	p.Ready(t, func(_, stderr string) bool { return strings.Count(stderr, `"listening"`) == 3 })
	return p
}

// address returns the listen address of a server for grpc, http or admin.
func address(t *testing.T, served *proctest.Process, server string) string {
	t.Helper()
	return proctest.Find(t, `"server":"`+server+`","addr":"([^"]+)"`, served.Stderr.String())
}

// bearing returns the context of a call with a credential and a deadline.
func bearing(t *testing.T, token string, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}
