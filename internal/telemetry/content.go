package telemetry

import "github.com/easel-grpc/easel/internal/ledger"

// CopyCounts are what this process has done with copies of results since its start.
type CopyCounts struct {
	Copied, Failures int64 // attempts
	Bytes            int64 // of those that were copied
	Reads, Rescued   int64 // of copies; where the catalog had the bytes
}

// MeasureContents measures copies of results at each collection, until stop is called: what this process has done, and
// what the ledger has of them. done and read ask nobody.
func MeasureContents(done func() CopyCounts, read func() ledger.Reading) (stop func(), err error) {
	return measured(Contents, func(value observe) {
		readCounts(done(), value)
		known := read().Contents
		value("easel.content.waiting", float64(known.Waiting))
		value("easel.content.failed", float64(known.Failed))
		value("easel.content.oldest_waiting", known.Oldest.Seconds())
	})
}

func readCounts(done CopyCounts, value observe) {
	value("easel.content.copies", float64(done.Copied), copyOutcome.is("copied"))
	value("easel.content.copies", float64(done.Failures), copyOutcome.is("failed"))
	value("easel.content.copied", float64(done.Bytes))
	value("easel.content.reads", float64(done.Reads), contentSource.is("copy"))
	value("easel.content.reads", float64(done.Rescued), contentSource.is("catalog"))
}
