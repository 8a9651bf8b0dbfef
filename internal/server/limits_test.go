package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/service"
)

// The limits of requests, and the values that the table and the probes share.
const (
	inputsLimit  = 1 << 20
	depthLimit   = 64
	valuesLimit  = 20_000
	answerLimit  = 4 << 20
	idLimit      = 256
	keyLimit     = 255
	tokenLimit   = 1024
	pageLimit    = 1000
	idsLimit     = 1000
	waitLimit    = 10 * time.Minute
	labelsLimit  = 16
	nameLimit    = 63
	valueLimit   = 256
	slowestPulse = time.Minute
	fastestPulse = time.Second
)

// limit is a row of the table of docs/operating.md, and what proves it: tests by name, which look at
// the limit and past it, or a probe here, which does.
type limit struct {
	name, value, past string
	tests             []string
	probe             func(t *testing.T, s *stack, c caller)
}

const invalid = "`INVALID_ARGUMENT` `INVALID_REQUEST`"

// limits is the table, in the page's order.
func limits() []limit {
	return []limit{
		{
			"a request: a gRPC message, the body of a REST request", inBytes(server.MessageBytes),
			"`RESOURCE_EXHAUSTED`; the gRPC library says so itself and gives no reason; REST 413 `REQUEST_TOO_LARGE`",
			[]string{"TestAMessageOfExactlyTheLimitIsTaken", "TestAMessageOverTheLimitIsRefused"},
			nil,
		},
		{"`inputs`", inBytes(inputsLimit), invalid, nil, probeInputs},
		{"nesting of `inputs`", fmt.Sprintf("%d levels", depthLimit), invalid, nil, probeDepth},
		{"values of `inputs`, with those inside of lists and objects; `inputs_json` has no such limit", number(valuesLimit), invalid, nil, probeValues},
		{
			"the headers of a request", inBytes(server.HeaderBytes), "the client's gRPC library refuses to send them; REST 431",
			[]string{"TestHeadersUpToTheLimitAreTakenAndNoMore"},
			nil,
		},
		{"`model_id`, `generation_id`", fmt.Sprintf("%d bytes", idLimit), invalid, nil, probeIDs},
		{"`idempotency_key`", fmt.Sprintf("%d characters", keyLimit), invalid, nil, probeKey},
		{"`labels` of an order; their names; their values", fmt.Sprintf("%d; %d characters; %d bytes", labelsLimit, nameLimit, valueLimit), invalid, nil, probeLabels},
		{"`page_token`", number(tokenLimit) + " bytes", invalid, nil, probeToken},
		{"`page_size`", number(pageLimit), "a page of " + number(pageLimit), []string{"TestAPageHasAtMostAThousandRenders"}, nil},
		{"`generation_ids` of a watch; over REST also what the headers may take", number(idsLimit), invalid, nil, probeManyIDs},
		{
			"an answer, each message of a stream too", inBytes(answerLimit), "unknown members are left out, then inputs, then the text: `omitted_fields` names them; a page is shorter",
			[]string{"TestAnAnswerLeavesOutWhatMakesItTooLarge", "TestAModelLeavesOutWhatMakesItTooLarge", "TestAPageEndsWhereTheAnswerWouldBeTooLarge"},
			nil,
		},
		{"`timeout` of a wait, `wait_timeout` of a download", long(waitLimit), invalid, nil, probeWait},
		{"`heartbeat_interval`", long(fastestPulse) + " to " + long(slowestPulse), invalid, nil, probePulse},
		{
			"streams of one caller: watches, waits, downloads (`EASEL_CALLER_STREAMS`)", number(server.CallerStreams),
			"`RESOURCE_EXHAUSTED` `STREAM_QUOTA_EXCEEDED` at once, REST 429",
			[]string{"TestAStreamOverTheQuotaIsRefusedAtOnceAndNeverQueuedByTheTransport"},
			nil,
		},
		{
			"streams of all callers (`EASEL_MAX_STREAMS`)", number(server.AllStreams), "`RESOURCE_EXHAUSTED` `OVERLOADED` at once, REST 429",
			[]string{"TestNoCallerTakesTheStreamsOfAnotherAndAllTogetherAreBounded"},
			nil,
		},
		{
			"`generation_ids` of all watches of one caller; of all callers", fmt.Sprintf("%s; %s", number(server.CallerGenerations), number(server.AllGenerations)),
			"`RESOURCE_EXHAUSTED` `STREAM_QUOTA_EXCEEDED`; `OVERLOADED`; both at once, REST 429",
			[]string{"TestTheGenerationsOfACallersWatchesAreBounded", "TestNoCallerTakesTheStreamsOfAnotherAndAllTogetherAreBounded"},
			nil,
		},
		{
			"other calls under way, with orders that go on without their caller (`EASEL_MAX_CALLS`)",
			fmt.Sprintf("%d; %d without orders; %d lists; %d of one caller; a sixteenth more for callers who have fewer than 2; twice as many of each with those that wait", server.Calls[0], server.Calls[1], server.Calls[2], server.CallerTurns),
			fmt.Sprintf("waits %s, orders first, lists last, whoever has had the fewest before others; then `RESOURCE_EXHAUSTED` `OVERLOADED`, REST 429", long(server.CallWait)),
			[]string{"TestTheLastTurnsAreKeptForWhatIsMissedMost", "TestACallWaitsForItsTurnAndNoLonger", "TestARefusalForLoadSaysWhenToComeBack", "TestOneCallersCallsKeepNoOtherOut", "TestOneCallerHasTwoThirdsOfTheTurnsAndNoMore"},
			nil,
		},
		{
			"memory of all calls under way",
			fmt.Sprintf("%d places of %s: %s MiB", server.CallMemory/server.PlaceBytes, inBytes(server.PlaceBytes), number(server.CallMemory>>20)),
			"there are no more",
			[]string{"TestTheDearestRequestCostsNoMoreThanAPlace", "TestAllPlacesFitIntoTheMemoryOfAPod"},
			nil,
		},
		{
			"calls that wait for the proof of an API key: under one; from one address; all",
			fmt.Sprintf("%s; %s; %s; a sixteenth more for addresses that have fewer than 2", number(server.UnprovedKey), number(server.UnprovedAddress), number(server.Unproved)),
			fmt.Sprintf("`RESOURCE_EXHAUSTED` `OVERLOADED`, REST 429, at once, or after %[1]s in which there was no turn to ask; `UNAVAILABLE` `UPSTREAM_UNAVAILABLE` after %[1]s without an answer of the catalog; a rejection is remembered for %[2]s", long(server.ProofWait), long(server.RejectedFor)),
			[]string{"TestCallsUnderANewAPIKeyWaitForOneProof", "TestAThousandWatchesUnderANewAPIKeyWaitForOneProof", "TestCallsThatWaitForAProofAreBounded"},
			nil,
		},
		{
			"memory of what they have sent meanwhile",
			memory(server.UnprovedAll, server.StreamWindow),
			"there are no more",
			[]string{"TestCallsThatWaitForAProofAreBounded"},
			nil,
		},
		{
			"calls without a credential, health watches and reflection: from one address; all", fmt.Sprintf("%d; %s; a sixteenth more for addresses that have fewer than 2", server.AddressCalls, number(server.PublicCalls)),
			"`RESOURCE_EXHAUSTED` `OVERLOADED` at once",
			[]string{"TestCallsThatNeedNoCredentialAreCountedByTheirAddress", "TestHealthWatchesOfTenAddressesKeepNoOtherOut"},
			nil,
		},
		{
			"health checks that have not been answered: from one address; all", fmt.Sprintf("%d; %s; a sixteenth more for addresses that have fewer than 2", server.AddressCalls, number(server.AllChecks)),
			"`RESOURCE_EXHAUSTED` `OVERLOADED` at once",
			[]string{"TestHealthWatchesOfTenAddressesKeepNoOtherOut"},
			nil,
		},
		{
			"the age of a health watch", long(2 * server.ConnAge), "`UNAVAILABLE` `STREAM_MAX_AGE`",
			[]string{"TestAHealthWatchEndsAtItsHighestAge"},
			nil,
		},
		{
			"pages over HTTP that have not left: to one address; all", fmt.Sprintf("%d; %s; a sixteenth more for addresses that have fewer than 2", server.AddressCalls, number(server.PublicCalls)),
			"429 `OVERLOADED` at once",
			[]string{"TestAnswersOverHTTPThatNobodyReadsAreCountedByTheirAddress"},
			nil,
		},
		{
			"refusals over HTTP that have not left: to one address; all", fmt.Sprintf("%s; %s; a sixteenth more for addresses that have fewer than 2", number(server.AddressRefusals), number(server.AllRefusals)),
			"the stream, over HTTP/1.1 the connection, is ended without an answer",
			[]string{"TestAnswersOverHTTPThatNobodyReadsAreCountedByTheirAddress"},
			nil,
		},
		{
			"memory of calls and health checks without a credential", memory(server.PublicPlaces, server.PublicBytes), "there are no more",
			[]string{"TestWhatIsHeldCostsNoMoreThanItsPrice"},
			nil,
		},
		{
			"memory of pages", memory(server.PagePlaces, server.PageBytes), "there are no more",
			[]string{"TestWhatIsHeldCostsNoMoreThanItsPrice"},
			nil,
		},
		{
			"memory of refusals over HTTP, and of calls that wait for a proof, beside what they send", memory(server.RefusalPlaces, server.RefusalBytes), "there are no more",
			[]string{"TestWhatIsHeldCostsNoMoreThanItsPrice"},
			nil,
		},
		{
			"connections to the gRPC and to the HTTP address, each (`EASEL_MAX_CONNS`)", number(server.ConnsEach) + "; " + number(server.ConnsEach*3/4) + " from one address", "the oldest that has proved nothing makes room, of the address that has the most such; where each has, the new one is closed at once",
			[]string{"TestAConnectionTooManyIsClosedAtOnceAndOthersGoOn", "TestTheHTTPListenerHasTheSameLimit", "TestANewConnectionGetsTheRoomOfOneThatHasProvedNothing", "TestAttackOfTwoAddressesOnAllConnections"},
			nil,
		},
		{
			"connections to the admin address and to `EASEL_METRICS_ADDR`, each", fmt.Sprintf("%d; %d from one address", server.OperatorConns, server.OperatorConnsOfAddress), "the oldest on which no operator was proved makes room, of the address that has the most, one with a request after its others; where one was on each, the new one is closed at once",
			[]string{"TestTheAddressesOfOperatorsHaveALimitOfConnections", "TestANewConnectionOfAnOperatorTakesNoRequestAndNoProofAway"},
			nil,
		},
		{
			"memory of the connections to the gRPC or to the HTTP address",
			memory(server.ConnsEach, server.ConnBytes),
			"there are no more",
			[]string{"TestAttackByHealthWatchesAndSilentConnections", "TestWhatIsHeldCostsNoMoreThanItsPrice"},
			nil,
		},
		{
			"calls on one connection", number(int(server.StreamsPerConn)),
			"the client's library holds the next one back",
			[]string{"TestACallTooManyOnAConnectionIsHeldBack"},
			nil,
		},
		{"connections to the catalog", "256 for orders, 256 for downloads, 256 to the hosts of `EASEL_CONTENT_HOSTS`, 256 for all other calls, a sixteenth of each for callers who have fewer than 2; none serves two API keys", "a request waits for one, whoever has the fewest before others; then `RESOURCE_EXHAUSTED` `OVERLOADED`", []string{
			"TestAConnectionServesOneAPIKeyAlone",
			"TestABurstTakesNoMoreConnectionsThanItMay", "TestDownloadsThatNobodyReadsKeepNoCallWaiting", "TestAttackOneOwnersRequestsKeepNoOtherWaiting", "TestAWaitForASlotIsNoSilenceOfTheCatalog",
			"TestUnreadResultsOfABucketHoldUpNoOtherOwner",
		}, nil},
		{"readers of [copies](#copies-of-results) at once", fmt.Sprintf("%d, a sixteenth for owners who have fewer than 2", server.CopyReaders), "a download waits 10 s, whoever has the fewest before others, and reads the catalog then; where that has not the bytes `RESOURCE_EXHAUSTED` `OVERLOADED`", []string{
			"TestUnreadCopiesOfOneTeamLeavePlacesForOthers",
		}, nil},
		{
			"memory of readers of copies", memory(server.CopyReaders, server.CopyBytes), "there are no more",
			[]string{"TestUnreadCopiesCostNoMoreThanTheirPrice"},
			nil,
		},
		{
			"memory of all of these, without streams, of which each takes 17 kB", mebibytes(server.MemoryOfCallers + server.MemoryOfNobody),
			fmt.Sprintf("all calls with all readers of copies (%s), or a server with all that needs no credential (%s), fit into `GOMEMLIMIT=1800MiB`; where both may come at once, a replica needs 4 GiB",
				mebibytes(server.MemoryOfCallers), mebibytes(server.IdleBytes+server.MemoryOfNobody)),
			[]string{"TestAllPlacesFitIntoTheMemoryOfAPod"},
			nil,
		},
		{"orders of one owner without an outcome, of those tried within `EASEL_RESEND_WINDOW`", number(ledger.MostOpen), "`RESOURCE_EXHAUSTED` `OVERLOADED`, nothing is sent", []string{
			"TestAnOwnerHasSoManyOrdersWithoutAnOutcomeAndNoMore",
		}, nil},
		{"orders of one owner that were refused within an hour; each is forgotten after a day", number(ledger.MostRefused), "`RESOURCE_EXHAUSTED` `OVERLOADED`, nothing is sent", []string{
			"TestAnOwnerHasSoManyOrdersRefusedWithinAnHourAndNoMore", "TestALedgerForgetsRefusedOrdersAfterADay",
		}, nil},
		{"placed orders in a ledger in memory", number(100_000) + ", for 24 h", "the oldest of whoever has the most is forgotten: its idempotency key goes to the catalog again", []string{
			"TestALedgerInMemoryKeepsTheNewestOrdersAndThoseOfUnknownOutcome", "TestAttackOneOwnersOrdersPushOutNoOthers",
		}, nil},
		{
			"a reader that takes nothing", long(server.WriteTimeout) + ", a download " + long(service.DefaultDownloadTimeout),
			"`RESOURCE_EXHAUSTED` `READER_TOO_SLOW`; REST breaks the connection",
			[]string{"TestAReaderThatIsStuckIsFreedAfterHalfAMinuteAndHoldsNobodyUp", "TestADownloadThatIsStuckIsFreedAfterTwoMinutes", "TestAClientThatDoesNotReadLosesItsStream", "TestADownloadMayPauseForTwoMinutesOverRESTToo"},
			nil,
		},
		{
			"memory for such a reader", "256 KiB", "what is newer replaces what is older",
			[]string{"TestAReaderStuckInLargeMessagesHoldsAtMost256KiB"},
			nil,
		},
		{
			"a TLS handshake; the headers of a REST request", long(server.HandshakeTimeout) + "; " + long(server.HeaderTimeout), "the connection is closed",
			[]string{"TestATLSHandshakeThatIsLeftHalfOpenIsGivenUp", "TestHeadersThatDoNotComeAreGivenUp"},
			nil,
		},
		{
			"a request to arrive: a gRPC message, the body of a REST request", long(server.RequestTimeout) + "; " + long(server.PublicTimeout) + " without a credential", "`DEADLINE_EXCEEDED`; the gRPC library says so itself and gives no reason; REST 408 `REQUEST_BODY_TIMEOUT`",
			[]string{"TestAMessageThatDoesNotComeIsGivenUp", "TestABodyMayTakeItsTimeAndAConnectionMayRest", "TestABodyThatDoesNotComeIsGivenUp"},
			nil,
		},
		{"an idle HTTP connection", long(server.IdleTimeout), "closed", []string{"TestABodyMayTakeItsTimeAndAConnectionMayRest"}, nil},
		{"a client that vanished without a word", long(server.VanishedTimeout), "freed", []string{
			"TestADeadClientIsFreedWithin45Seconds", "TestAnAcceptedConnectionLimitsWhatNobodyAcknowledges",
		}, nil},
		{"pings of a gRPC client", "every " + long(server.PingsMin), "the connection is closed: `too_many_pings`", []string{
			"TestPingsEveryTenSecondsAreWelcome", "TestPingsFasterThanAllowedEndTheConnection",
		}, nil},
		{"the age of a watch (`EASEL_MAX_STREAM_AGE`)", "1 h, less up to a tenth", "`closing`, then `UNAVAILABLE` `STREAM_MAX_AGE`", []string{
			"TestStreamsEndAtDifferentTimesThatASeedRepeats", "TestAStreamAtItsMaximumAgeSaysSo",
		}, nil},
		{"the age of a gRPC connection", long(server.ConnAge) + ", give or take a tenth", "the client is asked for a new one; open calls go on", []string{
			"TestAConnectionOfAgeIsReplacedAndItsStreamsGoOn",
		}, nil},
		{"a stop (`EASEL_DRAIN_TIMEOUT`)", long(server.DrainTimeout), "what has not ended is cut off", []string{
			"TestACallInProgressMayEnd", "TestAStopCutsOffWhatDoesNotEnd", "TestTheStepsOfAStopShareOneDeadline",
		}, nil},
		{"the details of an error; what it names of a request", fmt.Sprintf("4 KiB; %d violations", service.MostViolations), "shortened", []string{"TestAStatusFitsIntoTrailers", "TestOfManyUnknownQueryParametersTenAreNamed"}, nil},
	}
}

// memory is what so many of some things take.
func memory(many, each int) string {
	return fmt.Sprintf("%s of %s: %s", number(many), inBytes(each), mebibytes(many*each))
}

func mebibytes(n int) string { return number((n+1<<20-1)>>20) + " MiB" }

func inBytes(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%v MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func number(n int) string {
	text := fmt.Sprint(n)
	if n >= 1000 {
		text = text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}

func long(d time.Duration) string {
	switch {
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%d ms", d/time.Millisecond)
}

func TestTheTableOfLimitsIsThatOfTheCode(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Limits\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var want, got []string
	for _, l := range limits() {
		want = append(want, fmt.Sprintf("| %s | %s | %s |", l.name, l.value, l.past))
	}
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "|") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if table := strings.Join(want, "\n"); len(got) < 3 || strings.Join(got[2:], "\n") != table {
		t.Errorf("the table must be\n%s", table)
	}
}

func TestEveryLimitHasATestAtItAndPastIt(t *testing.T) {
	known := map[string]bool{}
	for _, dir := range []string{".", "../rest", "../service", "../catalog", "../content", "../ledger", "../orders", "../siege", "../../cmd/easel"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
				known[string(match[1])] = true
			}
		}
	}
	for _, l := range limits() {
		if l.probe == nil && len(l.tests) == 0 {
			t.Errorf("nothing proves the limit of %s", l.name)
		}
		for _, name := range l.tests {
			if !known[name] {
				t.Errorf("%s: there is no %s", l.name, name)
			}
		}
	}
}
