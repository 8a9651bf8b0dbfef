package telemetry

import "github.com/easel-grpc/easel/internal/ledger"

// CopyCounts are what this process has done with copies of results since its start.
type CopyCounts struct {
	Copied, Failures int64 // attempts
	Bytes            int64 // of those that were copied
	Reads, Rescued   int64 // of copies; where the catalog had the bytes
}

// readContents reads copies of results: what this process has done, and what the ledger has of them.
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
