package ledger_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// The Helm chart and the systemd unit pass the password in a file.
func TestThePasswordMayStandInAFile(t *testing.T) {
	address := proctest.Database(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	clerk := "clerk_" + strings.TrimPrefix(u.Path, "/") // must be unique, because all databases of a server share its roles
	change(t, address, `CREATE ROLE `+clerk+` LOGIN PASSWORD 'hunter2'; GRANT CREATE, USAGE ON SCHEMA public TO `+clerk)
	u.User = url.User(clerk)
	file := filepath.Join(t.TempDir(), "pgpass")
	t.Setenv("PGPASSFILE", file)
	for password, works := range map[string]bool{"hunter2": true, "hunter3": false} {
		if err := os.WriteFile(file, []byte("*:*:*:*:"+password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if works {
			write(t, open(t, u.String()), request("k"))
			continue
		}
		_, err := ledger.Open(t.Context(), ledger.Config{URL: u.String(), Catalog: theCatalog, ResendWindow: window})
		if err == nil || !strings.HasPrefix(err.Error(), "EASEL_LEDGER_URL") || strings.Contains(err.Error(), password) {
			t.Errorf("a wrong password returns %v", err)
		}
	}
}
