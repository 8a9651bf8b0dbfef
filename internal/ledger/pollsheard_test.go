package ledger_test

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// logged are the lines of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// running runs the polls of a book until stop is called. It gives the lines that they log.
func running(t *testing.T, url string) (p *ledger.Polls, log logged, stop func()) {
	t.Helper()
	log = make(logged, 100)
	p = ledger.NewPolls(ledger.PollsConfig{Ledger: open(t, url), Logger: slog.New(slog.NewTextHandler(log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { p.Run(ctx) })
	return p, log, func() { cancel(); run.Wait() }
}

func TestThatAPoolerCarriesNoNotificationsIsLogged(t *testing.T) {
	t.Parallel()
	server := proctest.StartPostgres(t)
	direct := server.Database(t)
	open(t, direct) // makes the schema, for which it needs a session
	at, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	_, log, stop := running(t, server.Pool(t, strings.TrimPrefix(at.Path, "/")))
	defer stop()
	if line := <-log; !strings.Contains(line, "notifications unavailable") || !strings.Contains(line, "transaction mode") {
		t.Errorf("behind a pooler is logged %q", line)
	}
	p, log, stop := running(t, direct)
	heard, unsubscribe := p.Changed(theAPIKey)
	defer unsubscribe()
	<-heard
	stop()
	if len(log) > 0 {
		t.Errorf("without a pooler is logged %q", <-log)
	}
}
