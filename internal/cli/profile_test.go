package cli

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// profiled runs "get gen_1" with a file of profiles, and gives the key that arrived. The
// address that was dialled stands in at.
func profiled(t *testing.T, file string, env map[string]string, at *string, args ...string) (string, printed) {
	t.Helper()
	key := ""
	dial := (&scripted{getWith: func(ctx context.Context) {
		key = strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), " and ")
	}, get: func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error) {
		return render("gen_1", succeeded), nil
	}}).serve(t)
	all := map[string]string{"EASEL_CONFIG_FILE": file}
	for name, value := range env {
		all[name] = value
	}
	got := easelEnv(t.Context(), func(ctx context.Context, addr string) (net.Conn, error) {
		*at = addr
		return dial(ctx, addr)
	}, all, append([]string{"get", "gen_1"}, args...)...)
	return key, got
}

func writeProfiles(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "dev.key"), []byte("dev-key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const twoProfiles = `{"default": "dev", "profiles": {
	"dev": {"addr": "dev:1", "api-key-file": "dev.key"},
	"prod": {"addr": "prod:1", "api-key": "prod-key"}}}`

func TestAProfileSaysWhereToGoAndWithWhichKey(t *testing.T) {
	file := writeProfiles(t, twoProfiles)
	for _, test := range []struct {
		name      string
		env       map[string]string
		args      []string
		addr, key string
	}{
		{"the default profile", nil, nil, "dev:1", "dev-key"},
		{"a profile by flag", nil, []string{"--profile", "prod"}, "prod:1", "prod-key"},
		{"a profile by variable", map[string]string{"EASEL_PROFILE": "prod"}, nil, "prod:1", "prod-key"},
		{"a variable beats the default profile", map[string]string{"EASEL_API_KEY": "mine"}, nil, "dev:1", "mine"},
		{"a profile by flag beats a variable", map[string]string{"EASEL_API_KEY": "mine", "EASEL_ADDR": "else:1"}, []string{"--profile", "prod"}, "prod:1", "prod-key"},
		{"and a variable with a file", map[string]string{"EASEL_API_KEY_FILE": "/nowhere"}, []string{"--profile", "prod"}, "prod:1", "prod-key"},
		{"a key stays with its address", nil, []string{"--addr", "evil:1"}, "evil:1", ""},
		{"also where the variable says the address", map[string]string{"EASEL_ADDR": "evil:1"}, nil, "evil:1", ""},
		{"and no other key takes its place", map[string]string{"EASEL_API_KEY": "mine"}, []string{"--profile", "prod", "--addr", "evil:1"}, "evil:1", ""},
		{"a file by flag beats a profile", nil, []string{"--profile", "prod", "--api-key-file", filepath.Join(filepath.Dir(file), "dev.key")}, "prod:1", "dev-key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var at string
			key, got := profiled(t, file, test.env, &at, test.args...)
			if got.exit != ExitOK || at != test.addr || strings.TrimPrefix(key, "Bearer ") != test.key {
				t.Errorf("exit %d, went to %s with %q\n%s", got.exit, at, key, got.stderr)
			}
		})
	}
}

func TestAProfileThatCanNotBeUsedIsNamedAndItsKeyIsNot(t *testing.T) {
	open := writeProfiles(t, twoProfiles)
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, file string
		args       []string
		want       string
	}{
		{"others can read the key", open, nil, "chmod 600 " + open},
		{"no such profile", writeProfiles(t, twoProfiles), []string{"--profile", "prd"}, "dev, prod"},
		{"no such file", "/nowhere/config.json", []string{"--profile", "dev"}, "/nowhere/config.json"},
		{"no JSON", writeProfiles(t, "{\n\"default\": prod-key}"), nil, "line 2"},
		{"an unknown member", writeProfiles(t, `{"profiles": {"a": {"apikey": "prod-key"}}}`), nil, `"apikey"`},
		{"a wrong type", writeProfiles(t, `{"profiles": {"a": {"tls": "prod-key"}}}`), nil, "tls"},
		{"no key file", writeProfiles(t, `{"default": "a", "profiles": {"a": {"api-key-file": "none.key"}}}`), nil, "none.key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var at string
			_, got := profiled(t, test.file, nil, &at, test.args...)
			if got.exit != ExitUsage || at != "" || !strings.Contains(got.stderr, test.want) || strings.Contains(got.stderr, "prod-key") {
				t.Errorf("exit %d, went to %q\n%s", got.exit, at, got.stderr)
			}
		})
	}
}

func TestProfilesAreListedWithoutTheirKeys(t *testing.T) {
	env := map[string]string{"EASEL_CONFIG_FILE": writeProfiles(t, twoProfiles)}
	got := easelEnv(t.Context(), nil, env, "profiles")
	if got.exit != ExitOK || !strings.Contains(got.stdout, "prod:1") || strings.Contains(got.stdout, "prod-key") {
		t.Errorf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	got = easelEnv(t.Context(), nil, env, "profiles", "-o", "json")
	var list struct{ Profiles []listedProfile }
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || len(list.Profiles) != 2 || list.Profiles[1].Key != "here" {
		t.Errorf("%v\n%s", err, got.stdout)
	}
	if got := easel(t.Context(), nil, "profiles"); got.exit != ExitOK || !strings.Contains(got.stderr, "no profiles") {
		t.Errorf("without a file: exit %d\n%s", got.exit, got.stderr)
	}
}
