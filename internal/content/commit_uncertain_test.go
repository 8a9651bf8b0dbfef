package content_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestCopyIsNotDeletedIfCommitOutcomeIsUnknown(t *testing.T) {
	inStudio(t, func(s *studio) {
		if err := s.ledger.Close(); err != nil {
			s.Fatal(err)
		}
		var lost atomic.Bool // whether commits succeed but report an error, as if their responses were lost
		connector := proctest.NewConnector(t, s.url)
		connector.Committed = func(err error) error {
			if err == nil && lost.Load() {
				return errors.New("the response is lost")
			}
			return err
		}
		s.connector = connector
		s.open(true)
		s.results = s.replica()
		file := picture(600_000)
		s.finishOrder("g1", file)
		job := s.takeJob(ledger.CopyJob)
		lost.Store(true)
		err := s.runCopyJob(job)
		if _, doubt := errors.AsType[*ledger.Doubt](err); !doubt {
			s.Errorf("the copy fails with %v", err)
		}
		lost.Store(false)
		if row := s.row("g1"); row.State != ledger.ContentCopied || len(s.objects()) != 1 {
			s.Errorf("the row is %+v, and the store has %q", row, s.objects())
		}
		s.wantBytes("g1", file, content.FromCopy)
	})
}
