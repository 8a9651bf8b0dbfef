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

// The password may be in a file that PGPASSFILE names, as in the Helm chart and the systemd unit. If the
// password is wrong, the error must name the setting EASEL_LEDGER_URL and must not contain the password.
func TestDatabasePasswordIsReadFromFile(t *testing.T) {
	address := proctest.Database(t)
	clerk := "clerk_" + databaseName(t, address) // role name; must be unique, because all databases of a server share its roles
	change(t, address, `CREATE ROLE `+clerk+` LOGIN PASSWORD 'hunter2'; GRANT CREATE, USAGE ON SCHEMA public TO `+clerk)
	address = changeURL(t, address, func(u *url.URL) { u.User = url.User(clerk) })
	file := filepath.Join(t.TempDir(), "pgpass")
	t.Setenv("PGPASSFILE", file)
	for password, works := range map[string]bool{"hunter2": true, "hunter3": false} {
		if err := os.WriteFile(file, []byte("*:*:*:*:"+password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if works {
			write(t, open(t, address), request("k"))
			continue
		}
		_, err := ledger.Open(t.Context(), ledger.Config{URL: address, Catalog: theCatalog, ResendWindow: window})
		if err == nil || !strings.HasPrefix(err.Error(), "EASEL_LEDGER_URL") || strings.Contains(err.Error(), password) {
			t.Errorf("opening the ledger with a wrong password returns %v", err)
		}
	}
}
