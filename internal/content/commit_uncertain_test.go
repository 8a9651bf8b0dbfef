package content_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
)

// lostCommits is a connector to a SQLite file. While lost is set, commits succeed, but their responses are
// lost.
type lostCommits struct {
	sqlite driver.Driver
	dsn    string
	lost   atomic.Bool
}

func newLostCommits(t *testing.T, url string) *lostCommits {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return &lostCommits{sqlite: db.Driver(), dsn: "file:" + strings.TrimPrefix(url, "sqlite:") + "?_txlock=immediate&_pragma=busy_timeout(5000)"}
}

// Connect implements [driver.Connector].
func (l *lostCommits) Connect(context.Context) (driver.Conn, error) {
	conn, err := l.sqlite.Open(l.dsn)
	return lossyConn{conn, l}, err
}

// Driver implements [driver.Connector].
func (l *lostCommits) Driver() driver.Driver { return l.sqlite }

type lossyConn struct {
	driver.Conn
	of *lostCommits
}

// BeginTx implements [driver.ConnBeginTx].
func (c lossyConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
	return lossyTx{tx, c.of}, err
}

type lossyTx struct {
	driver.Tx
	of *lostCommits
}

// Commit implements [driver.Tx].
func (x lossyTx) Commit() error {
	if err := x.Tx.Commit(); err != nil || !x.of.lost.Load() {
		return err
	}
	return errors.New("the response is lost")
}

func TestACopyInDoubtIsNotDeleted(t *testing.T) {
	inStudio(t, func(s *studio) {
		if err := s.ledger.Close(); err != nil {
			s.Fatal(err)
		}
		commits := newLostCommits(t, s.url)
		s.connector = commits
		s.open(true)
		s.results = s.replica()
		file := picture(600_000)
		s.finish("g1", file)
		job := s.take(ledger.CopyJob)
		commits.lost.Store(true)
		err := s.copy(job)
		if _, doubt := errors.AsType[*ledger.Doubt](err); !doubt {
			s.Errorf("the copy fails with %v", err)
		}
		commits.lost.Store(false)
		if row := s.row("g1"); row.State != ledger.ContentCopied || len(s.objects()) != 1 {
			s.Errorf("the row is %+v, and the store has %q", row, s.objects())
		}
		s.wantBytes("g1", file, content.FromCopy)
	})
}
