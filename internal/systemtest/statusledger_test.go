package systemtest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// teamsOf writes a callers file: a team with little to spend and one without a limit, whose callers' tokens are their
// names.
func teamsOf(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "callers.yaml")
	token := func(name string) string { return fmt.Sprintf("tokens: [\"sha256:%x\"]", sha256.Sum256([]byte(name))) }
	text := "teams: {studio: {budget: {daily_cents: 12, monthly_cents: 100}}, gallery: {}}\ncallers:\n" +
		"- {name: poster, team: studio, " + token("poster") + "}\n- {name: frame, team: gallery, " + token("frame") + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheStatusPageHasARowForEachOwner(t *testing.T) {
	t.Parallel()
	chromium(t)
	url, lockOut := secretLedger(t)
	f := newFacility(t, 1)
	f.served.Stop()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(f.keys[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	f.serve(map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_CALLERS_FILE": teamsOf(t), "EASEL_LEDGER_URL": url})
	b := f.seen("light", "All is well")
	b.until("a row for each owner", `document.querySelectorAll('#owners tr').length === 3`)
	for n := range 2 {
		f.watch("poster", 1, 0)
		var status struct {
			Ledger struct {
				Owners []struct {
					Owner                                      string
					Orders, SpentCents, ReservedCents, Unknown int64
					Day, Month                                 *struct{ LimitCents, LeftCents int64 }
				}
			}
		}
		f.until("the owner's order in the status", func() bool {
			if err := json.Unmarshal([]byte(f.tell(http.MethodGet, "http://"+f.admin+"/status.json", "")), &status); err != nil {
				t.Fatal(err)
			}
			return status.Ledger.Owners[0].Orders == int64(n+1)
		})
		o := status.Ledger.Owners[0]
		if o.Owner != "studio" || o.SpentCents+o.ReservedCents == 0 || o.Day == nil || o.Month == nil || o.Day.LeftCents != 12-o.SpentCents-o.ReservedCents || o.Unknown != 0 {
			t.Errorf("the row is %+v", o)
		}
	}
	b.until("a budget that is nearly used up", fmt.Sprintf(textOf, "verdict")+`.includes('is left to studio')`)
	b.until("the row of the owner", fmt.Sprintf(textOf, "owners")+`.includes('0.02 EUR of 0.12 EUR')`)
	b.picture("status-owners-light")
	dark := f.seen("dark", "Something should be looked at")
	dark.picture("status-owners-dark")
	f.calm(dark)
	lockOut()
	b.until("word of the ledger", fmt.Sprintf(textOf, "verdict")+`.includes('The ledger does not answer')`)
	b.until("what was known", fmt.Sprintf(textOf, "owners")+`.includes('studio')`)
	b.picture("status-ledger-down-light")
	page := fmt.Sprint(b.value(`document.documentElement.outerHTML`))
	f.withoutKeys(page)
	search(t, "the page", page)
	if strings.Contains(page, "postgres:") {
		t.Error("it shows where the ledger is")
	}
	f.calm(b)
}

func TestManyStatusPagesAskTheLedgerSeldom(t *testing.T) {
	t.Parallel()
	f := newFacility(t, 1)
	f.served.Stop()
	f.serve(map[string]string{"EASEL_LEDGER_URL": "sqlite:" + filepath.Join(t.TempDir(), "book.db")})
	asked := func() float64 { return f.measured("db_client_operation_duration_seconds_count") }
	before, began := asked(), time.Now()
	for range 200 {
		f.tell(http.MethodGet, "http://"+f.admin+"/status.json", "")
	}
	const each = 3 // statements of a read
	if most := each * (2 + time.Since(began)/(5*time.Second) + time.Since(began)/(15*time.Second)); asked()-before > float64(most)+30 {
		t.Errorf("200 pages have cost the ledger %.0f statements, and %d are enough", asked()-before, most)
	}
}
