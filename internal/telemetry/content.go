package telemetry

import "github.com/easel-grpc/easel/internal/ledger"

// CopyCounts counts operations on copies of results in this process since its start.
type CopyCounts struct {
	Copied, Failures int64 // numbers of attempts
	Bytes            int64 // bytes of successful copies
	Reads, Rescued   int64 // reads of copies; those that fell back to the catalog
}

// readContents reads the metrics of copies: the counts of this process and the state in the ledger.
func readContents(done CopyCounts, known ledger.ContentSummary, value observe) {
	value("easel.content.waiting", float64(known.Waiting))
	value("easel.content.failed", float64(known.Failed))
	value("easel.content.oldest_waiting", known.Oldest.Seconds())
	value("easel.content.copies", float64(done.Copied), copyOutcome.is("copied"))
	value("easel.content.copies", float64(done.Failures), copyOutcome.is("failed"))
	value("easel.content.copied", float64(done.Bytes))
	value("easel.content.reads", float64(done.Reads), contentSource.is("copy"))
	value("easel.content.reads", float64(done.Rescued), contentSource.is("catalog"))
}
