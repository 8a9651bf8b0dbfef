package ledger_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/shared"
	"github.com/easel-grpc/easel/internal/proctest"
)

// Whoever reads page by page compares its places byte by byte, and databases differ in the order of texts.
func TestPagesOfNewsGoForwardInAnyOrderOfTexts(t *testing.T) {
	at := proctest.Database(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.Path += "_american"
	change(t, at, `CREATE DATABASE `+strings.TrimPrefix(u.Path, "/")+` TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'`)
	p := sharedPolls(t, u.String())
	reads := []shared.Read(nil)
	for n := range 700 {
		reads = append(reads, shared.Read{ID: fmt.Sprintf("a%03d", n)}, shared.Read{ID: fmt.Sprintf("B%03d", n)}, shared.Read{ID: fmt.Sprintf("c-%03d", n)})
	}
	claimed := 0
	for claimed < len(reads) { // as many at once as the rate allows
		claimed += len(claim(t, p, shared.Ask{Reads: reads[claimed:]}).Reads)
	}
	seen := map[string]bool{}
	for at, more := (shared.Cursor{}), true; more; {
		page := news(t, p, at)
		for _, s := range page.States {
			seen[s.ID] = true
		}
		if page.Next.Version < at.Version || page.Next.Version == at.Version && page.Next.ID <= at.ID {
			t.Fatalf("after %+v comes %+v", at, page.Next)
		}
		at, more = page.Next, page.More
	}
	if len(seen) != len(reads) {
		t.Errorf("%d of %d states are read", len(seen), len(reads))
	}
}

// D8: a record may have megabytes.
func TestManyLargeRecordsAreWrittenAndReadInPieces(t *testing.T) {
	p := sharedPolls(t, proctest.Database(t))
	record, changes := strings.Repeat("x", 1<<20), make([]shared.Change, 50)
	for n := range changes {
		changes[n] = shared.Change{ID: fmt.Sprintf("%03d", n), At: time.Now(), Etag: new("e"), Record: &record}
	}
	found(t, p, shared.Found{Changes: changes, Swept: time.Now()})
	states := 0
	for at, more := (shared.Cursor{}), true; more; {
		page := news(t, p, at)
		if len(page.States) > 4 {
			t.Fatalf("an answer has %d states of a megabyte", len(page.States))
		}
		states += len(page.States)
		at, more = page.Next, page.More
	}
	if states != len(changes) {
		t.Errorf("%d of %d states are read", states, len(changes))
	}
}
