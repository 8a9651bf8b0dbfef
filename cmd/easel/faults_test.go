package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fault is an entry in the list of faults.
type fault struct {
	id, what, proof string
	tests           string // names of the tests that cover the fault, separated by spaces
}

// faults lists all faults that the tests must cover. The first letter of an ID is the kind of fault: U for the upstream
// catalog, K for kills and calls that end early, N for the network, C for clocks, L for clients and their streams, I
// for input, X for keys and certificates, A for abuse and misleading responses, M for money, T for teams with one API
// key, S for the sandbox.
var faults = []fault{
	{"U1", "the catalog refuses connections, or its host name has no address", "few retries; watches stay open; requests are counted", "TestGetReturnsWatchedStateDuringCatalogOutage TestOutageStopsDownloadFromResumingAgain TestRetriesAddAtMostTenPercentDuringOutage TestHeartbeatsReportCatalogErrors"},
	{"U2", "the catalog accepts connections and never responds", "each call ends at its deadline", "TestCallTimesOutWhenCatalogNeverResponds TestRetryIsDelayedByRetryAfterHeader TestUnknownOutcomeIsReturnedBeforeDeadline"},
	{"U3", "the catalog sends one byte per second", "reading a body has an idle timeout; goroutines end", "TestDrippingResponseBodyTimesOut TestIdleTimeoutExcludesTimeBetweenReads"},
	{"U4", "the catalog fails with an HTML page", "the status code decides; no HTML is forwarded", "TestOrderResentAfterBrokenResponseIsChargedOnce TestHeartbeatsReportCatalogErrors"},
	{"U5", "the catalog requests a pause", "no poll with that API key during the pause", "TestHeartbeatsReportRateLimitingOfCalls TestRateLimitedCallDelaysPollsOfNewWatch TestPollingPausesAfterRateLimitError"},
	{"U6", "the requested pause is zero, years long or unreadable", "fuzzed header parser; maximum length of a pause", "FuzzParseRetryAfter TestRetryAfterHeaderAcceptsSecondsOrDate"},
	{"U7", "the catalog rejects the server's API key", "callers get INTERNAL; watches stay open; one probe a minute", "TestRejectedForwardedAPIKeyEndsWatch TestRejectedSharedKeyIsReportedAsInternalError"},
	{"U8", "the balance is too low", "one attempt; FAILED_PRECONDITION", "TestEachFailedOrderReportsItsOutcome"},
	{"U9", "the API key has reached its daily cap", "one attempt; polls and downloads continue", "TestEachFailedOrderReportsItsOutcome"},
	{"U10", "an existing render is not found", "a new render has a grace period; then its deletion is delivered once", "TestUnknownGenerationIsMarkedAsMissing TestFalse404DoesNotDeleteListedGeneration TestReappearingGenerationIsNoLongerDeleted TestNewOrderIsPresumedDeletedOnlyAfterAGracePeriod TestNewOrderIsDeliveredAsQueuedDespite404 TestNewOrderMissingFromCatalogIsReportedAsQueued TestOutdatedResponseDoesNotUndoDeletion"},
	{"U11", "statuses, members, error codes and types are unknown", "fuzzed tolerant parser; only known final states end a watch", "FuzzAListHoldsNoAPIKey FuzzReadAccountAndQuote FuzzReadError FuzzReadGeneration FuzzReadModels TestStatusIsNormalizedAndMappedToState"},
	{"U12", "a successful response to an order has no ID", "resent with the same idempotency key; one charge", "TestOrderResentAfterBrokenResponseIsChargedOnce"},
	{"U13", "a state goes backwards", "watchers never see it; a refund is delivered", "TestFailedStateChangesOnlyToRefunded TestReconnectedWatcherGetsNoEarlierState TestRepeatedStateRegressionIsLoggedOnce TestStatesNeverGoBackwards"},
	{"U14", "an order is accepted and the response is lost", "resent with the same idempotency key; one charge, the same render", "TestOrderResentAfterBrokenResponseIsChargedOnce TestOrderWithLostResponseIsChargedOnce TestTheTransportNeverSendsAnOrderTwice"},
	{"U15", "a resend arrives while the catalog still processes the order", "same as for a lost response", "TestLateGenerationIsRecordedAfterRejectedResend"},
	{"U16", "a download is interrupted, too short or has different bytes", "the download resumes or fails; it is never reported as complete", "FuzzContent FuzzContentRange FuzzParsedRangeLiesWithinFile FuzzQuotedEtagsStayDistinct TestChangedFileIsDetectedWhenDownloadResumes TestConnectionCloseAloneDoesNotCompleteDownload TestContentRangeIsCheckedAgainstRequestedRange TestDownloadRecoversFromWrongContentLength TestInterruptedDownloadHasNoSummary TestInterruptedDownloadResumes TestInterruptedDownloadResumesAtReportedOffset TestTruncatedResponseIsAnError"},
	{"U17", "the catalog redirects requests", "40 targets; none receives the API key", "TestDownloadRedirectIsFollowedOnlyToConfiguredHosts TestRedirectsAreNotFollowedByDefault TestSwitchingProtocolsResponseFailsImmediately TestTheContentURLIsNeverDialed"},
	{"U18", "a response never ends, or expands when decompressed", "a limit for each kind of response; memory is measured", "TestResponseBodySizeIsLimited TestCompressedResponseIsRejected TestEndlessResponseHeaderIsRejected TestManyAPIKeysInLongTextAreRedactedQuickly TestResponseWithTooLargeContentLengthIsNotRead"},
	{"U19", "an outage of several minutes with many watches", "afterwards, the request rate stays within its setting", "TestOutageDoesNotCauseBurstOfPolls"},
	{"U20", "the price changes between quote and order", "the price limit is compared with a new quote; the actual charge is reported", "FuzzReadAccountAndQuote TestOrderIsNotSentIfPriceExceedsItsMaxCost TestOrderRejectedByServerIsNotSentToCatalog TestQuotedPriceIsCharged"},
	{"U21", "a render stays queued forever", "it is never reported as finished; polls become rare; heartbeats continue", "TestOldUnfinishedGenerationIsPolledLessOften"},
	{"U22", "a response repeats the API key", "the key is removed from errors and records", "FuzzReadAccountAndQuote FuzzReadError FuzzReadModels FuzzRedact TestAPIKeyAndContentURLAreRemovedFromGeneration TestAPIKeyAppearsInNoOutputOfProcess TestAPIKeyIsRedactedInErrorsInEveryEncoding TestAPIKeyIsRedactedInRecordsHeadersAndErrors TestAPIKeyIsRemovedFromAccountDetails TestOnlyAPIKeyIsRedactedInInputs TestListRedactsCurrentAPIKeyAfterRotation TestManyAPIKeysInLongTextAreRedactedQuickly TestTheAPIKeyIsRedactedInNetworkErrors"},

	{"K1", "killed before the order is sent", "the caller repeats the order with its idempotency key: one charge, one ID", "TestOrderIsChargedOnceDespiteKillsAndConnectionCuts TestTheLedgerEqualsCatalogAccountsDespiteProcessKills"},
	{"K2", "killed while the order is sent", "see K1", "TestOrderIsChargedOnceDespiteKillsAndConnectionCuts"},
	{"K3", "killed after the catalog has accepted the order", "see K1", "TestOrderIsChargedOnceDespiteKillsAndConnectionCuts TestTheLedgerEqualsCatalogAccountsDespiteProcessKills"},
	{"K4", "killed after the catalog's response has arrived", "see K1", "TestOrderIsChargedOnceDespiteKillsAndConnectionCuts TestTheLedgerEqualsCatalogAccountsDespiteProcessKills"},
	{"K5", "killed before the caller gets the response", "see K1", "TestOrderIsChargedOnceDespiteKillsAndConnectionCuts"},
	{"K6", "killed after the caller has got the response", "see K1", "TestOrderIsChargedOnceDespiteKillsAndConnectionCuts"},
	{"K7", "a caller cancels its call during the order", "the order is completed; a call with the same idempotency key returns it", "TestAttemptsContinueForLimitedTimeAfterCallerCancels"},
	{"K8", "concurrent calls with the same idempotency key", "one submission", "TestConcurrentCallsWithOneIdempotencyKeyPlaceOneOrder TestOrderIsChargedOnceDespiteKillsAndConnectionCuts"},

	{"N1", "packets to the catalog are lost", "same as for a catalog that never responds; the connection is closed", "TestReplicasKeepAllWatches"},
	{"N2", "a client disappears without closing its connection", "its streams are released within 45 s", "TestAcceptedConnectionHasTCPUserTimeout TestStreamOfUnreachableClientEndsWithin45Seconds"},
	{"N3", "a proxy closes connections that are silent for a minute", "heartbeats keep the connection open", "TestIdleStreamOutlivesSendTimeout TestIdleWatchSendsHeartbeatAtLeastEvery16Seconds"},
	{"N4", "the server stops with thousands of watches", "each watch gets a closing message; the process exits within 10 s", "TestProcessExitsInTenSecondsDespiteCollectorFaults TestSIGTERMEndsFiveThousandWatchesWithinTenSeconds"},
	{"N5", "the telemetry collector is down or slow", "latency and memory are unchanged; the process exits in time", "TestProcessExitsInTenSecondsDespiteCollectorFaults TestUnresponsiveCollectorBarelySlowsCalls TestUnresponsiveCollectorDoesNotBlockShutdown"},

	{"C1", "the wall clock jumps by a day", "no burst of requests; nothing expires early", "TestClockSkewNeitherEndsWatchEarlyNorAddsPolls TestRefundWindowStartsAtTerminalTimeFromCatalog"},
	{"C2", "the process is suspended for minutes and resumes", "no old state is delivered as new; no burst of requests", "TestReplicasKeepAllWatches"},

	{"L1", "a client never reads its stream", "the stream ends after 30 s; it uses little memory; other callers are not slower", "TestStallAfterSlowDeliveryEndsWatch TestStalledDeliveryEndsWatch TestUnreadDownloadEndsAfterOneMinute TestBlockedWatchersDelayOtherWatchersOnlyBriefly TestRESTDownloadMayStallForUpToTwoMinutes TestStreamEndsIfClientDoesNotRead TestStuckDownloadEndsAfterTwoMinutes TestWatchEndsIfClientDoesNotReadFor30Seconds TestStuckWatchWithLargeMessagesUsesAtMost256KiB"},
	{"L2", "a client reads slowly", "it misses states, but never the final one", "TestSlowDeliveryDoesNotEndWatch TestSlowWatcherGetsOnlyLatestState"},
	{"L3", "watches are continually opened and canceled", "goroutines and memory return to their initial level", "TestNoResourcesLeakWhenWatchesAreOpenedAndCanceled"},
	{"L4", "very many watches of one render", "as many polls as for one watch", "TestThousandWatchersCauseNoAdditionalPolls"},
	{"L5", "a caller opens more streams than its limit", "rejected immediately, never queued", "TestEndedStreamsReleaseTheirQuota TestOneHTTPConnectionCarriesAllStreamsOfACaller TestQuotaIsCountedPerCallerAndInTotal TestStreamAboveQuotaIsRejectedImmediately"},
	{"L6", "a watch begins while the state becomes final", "the watch never hangs", "TestReconnectedWatcherGetsNoEarlierState TestWatchThatBeginsAsItsGenerationEndsGetsFinalState"},
	{"L7", "a call for a render of another API key", "the same response as for an unknown ID", "TestConnectionServesOnlyOneAPIKey TestCredentialsShareNoGenerationStates TestDuplicateResponseNeverReachesAnotherAPIKey TestForeignGenerationIsReportedLikeUnknownGeneration TestOwnersOfOneAPIKeyShareOneListRequest"},
	{"L8", "a client sends a ping every 10 s", "it stays connected", "TestTooFrequentPingsCloseConnection"},
	{"L9", "HTTP/2 attacks: resets, endless headers, floods, incomplete handshakes", "raw frames against a server: memory is bounded; other clients are served", "TestAttacksOnProtocolsUseLittleMemory TestConnectionWithIncompleteBodyIsClosed TestConnectionWithIncompleteHeadersIsClosed TestIncompleteTLSHandshakeTimesOut"},

	{"I1", "a message above the size limit, compressed or not", "rejected; memory is measured", "FuzzRESTResponseHasDocumentedStatus TestDecompressionBombNeedsLittleMemory TestMessagesAboveSizeLimitAreRejected"},
	{"I2", "inputs that different parsers would read differently", "rejected; accepted numbers keep each digit, fuzzed", "FuzzAListHoldsNoAPIKey FuzzInputsJSONIsRejectedOrForwardedUnchanged FuzzInputsReachTheCatalogWithTheirValues FuzzRESTResponseHasDocumentedStatus TestInputsAreSentByteForByte TestInputsJSONWithUnpairedSurrogateIsRejected TestInvalidRequestsAreRejectedWithFieldViolations TestNumbersBeyondDoublePrecisionBecomeStrings TestNumericInputsAreEncodedExactly TestRequestsAboveLimitsAreRejected TestTextResultIsReturnedInGeneration"},
	{"I3", "IDs that could change the path of a request", "rejected or escaped; the path is the intended one, fuzzed", "FuzzIDIsOnePathSegmentOrRejected FuzzRESTResponseHasDocumentedStatus TestEscapedIDInPathIsDecodedOnce TestGenerationIDsCannotChangeUpstreamRoute TestUnsafeIDIsRejectedBeforeRequestIsSent"},
	{"I4", "idempotency keys that a header can't contain", "rejected; the error names the field", "TestAnInvalidOrderIsNotSent TestIdempotencyKeyIsAcceptedInHeaderOrBody TestInvalidRequestsAreRejectedWithFieldViolations TestRequestsAboveLimitsAreRejected"},
	{"I5", "invalid page sizes and page tokens", "lowered to the maximum, or rejected, fuzzed", "FuzzPageTokenErrorIsInvalidRequest TestAPageHasAtMostAThousandRenders TestInvalidRequestsAreRejectedWithFieldViolations TestRequestsAboveLimitsAreRejected"},
	{"I6", "an error of the catalog is too long for trailers", "truncated to 4 KiB in total", "TestLongErrorStatusIsTruncated"},

	{"X1", "the API key file changes under load", "the new key is used; while the file is unreadable, the old key is used", "TestSharedAPIKeyIsReloadedFromFile"},
	{"X2", "the API key file is empty, unreadable or ends with a line break", "one line at startup names the file; the line break is ignored", "TestInvalidServeSettingIsReportedInOneLine TestSharedAPIKeyIsReloadedFromFile"},
	{"X3", "the process prints an API key", "every log, span, metric, error, dump and response is searched for a test key", "TestAPIKeyAppearsInNoOutputOfProcess TestAPIKeyInMalformedResponseAppearsInNoSpan TestSecretIsRedactedInEveryOutputFormat TestExtraBytesAfterCatalogResponseAreNotLogged TestLedgerPasswordAppearsInNoOutputOfProcess TestSpanOfACatalogRequestOmitsTheAPIKey"},
	{"X4", "the certificate changes", "no handshake fails", "TestNoHandshakeFailsWhileCertificatesRotate"},

	{"S1", "the sandbox is killed", "its balances stay exact; its renders finish", "TestAcceptedOrdersAndBalancesSurviveKills TestOrderIsChargedOnceDespiteKillsAndConnectionCuts TestTheLedgerEqualsCatalogAccountsDespiteProcessKills"},
	{"S2", "many concurrent writers", "no caller gets the error that the database is locked", "TestSixtyFourWritersNeverSeeALockedDatabase"},
	{"S3", "two orders, and a balance for only one", "one is rejected; the balance is never below 0", "TestConcurrentCreatesNeverOverspendBalance"},
	{"S4", "an idempotency key in concurrent requests, or with another body", "one charge; the other body is rejected", "TestConcurrentOrdersWithSameIdempotencyKeyAreChargedOnce TestIdempotencyKeyWithDifferentBodyIsRejected TestOrderIsChargedOnceDespiteKillsAndConnectionCuts"},

	{"A1", "a gRPC call without credentials delays its message", "rejected after its headers", "TestUnauthenticatedCallIsRejectedBeforeRequestArrives"},
	{"A2", "a REST request without credentials delays its body", "rejected after its headers", "TestUnauthenticatedCallIsRejectedBeforeRequestArrives"},
	{"A4", "1,000 streams with 1,000 invented IDs each, under a rejected and under a valid API key", "another caller's latency is unchanged; memory is bounded; the server stops in time", "TestAttackByWatchingUnknownIDsDoesNotDelayOtherCallers TestGenerationsWatchedByOneCallerAreLimited TestShutdownContinuesDespiteStuckStage"},
	{"A5", "watches under API keys that the catalog rejects", "they leave no state a second after they have ended", "TestAttackByWatchesWithRejectedAPIKeysLeavesNoState TestConnectionsOfRejectedAPIKeyAreClosed TestFailedListRequestIsNotCached"},
	{"A6", "hundreds of orders of 700 KB", "of each order, only its ID, outcome, price and time are kept", "TestOpenOrdersOfOwnerAreLimited"},
	{"A7", "one owner's orders displace the stored orders of others", "the owner with the most orders loses its own oldest ones", "TestPruningKeepsTheNewestOrdersOfEachOwner"},
	{"A8", "abandoned orders and unread downloads occupy all connections to the catalog", "another owner's order and download start immediately; no outage is reported", "TestAttackHangingRequestsOfOneCallerDelayNoOtherCaller TestRequestWithoutFreeConnectionFailsAsBusy"},
	{"A9", "a caller is removed while its watch is open", "the watch ends by the next heartbeat; another caller's watch continues", "TestAttackByRemovedCallerEndsAtNextHeartbeat TestClientCertificateNeedsOnlyOneTrustedChain TestStreamEndsWhenCallersCertificateBecomesInvalid"},
	{"A10", "an order is resent by another replica, after a restart, or after it has used up the balance", "no response reports it as not placed; no advice leads to a second order", "TestEachFailedOrderReportsItsOutcome TestErrorAdviceNeverLeadsToSecondOrder TestInvalidRequestIsRejectedWithReasonAndOutcome TestOrderIsWithdrawnBeforeFailureIsReported TestOrderRejectedByServerIsNotSentToCatalog TestOrderMayExistDespiteInsufficientFundsError TestOutcomeIsUnknownIfLeaseIsLostAndLedgerIsDown TestOutcomeStaysUnknownAfterAmbiguousRejection TestOutcomeStaysUnknownAfterUncertainAttempt TestRejectionIsWithheldWhileOrderMayExist TestThrottledOrderHasUnknownOutcome TestUnknownOrderOutcomeSuggestsRetryWithinWindow"},
	{"A11", "a shared API key is rotated between two attempts of one order", "all attempts use the first key; one charge", "TestAPIKeyRotationDuringRecoveryCausesNoSecondCharge TestAllAttemptsUseSameKeysAndBody"},
	{"A12", "an error message repeats a known code from a prompt", "not treated as a rejection, because codes are read only from members for codes", "TestEachHTTPStatusMapsToItsErrorKind"},
	{"A13", "a client has no certificate, although a client CA is configured", "rejected over gRPC and REST; a client with a certificate is served", "TestAttackWithoutClientCertificateIsRejectedIfRequired"},
	{"A14", "a page of another origin uses DNS rebinding to send orders to a server with anonymous callers", "its orders are rejected; requests to the machine's own names are served", "TestAttackByDNSRebinding TestAttackByDNSRebindingIsRejectedOnAnonymousServer"},
	{"A15", "escape sequences and directional overrides in strings of a catalog, a server or a file", "every command and output format, in pipes and terminals, prints only their visible form", "TestAttackByCatalogCannotInjectTerminalCodes TestAttackByFileNameOrArgumentCannotInjectTerminalCodes TestAttackByResultIsEscapedOnTerminalOnly TestAttackByServerResponseIsEscapedOnColorTerminal TestAttackByServerResponseCannotInjectTerminalCodes"},
	{"A16", "stopped replicas remain in the shared state", "they count for 30 s; afterwards, they have no share of the poll rate", "TestOnlyActivePollingReplicasAreCounted"},
	{"A17", "a page of another origin sends requests to the admin listener", "rejected, also for reads and for unknown hosts; operators are served", "TestAttackByWebPagesOnAdminListenerIsRejected"},

	{"T1", "two owners with one API key choose the same idempotency key", "two orders with separate responses, also after a crash", "TestAnonymousCallersAreOneOwner TestIdempotencyKeySentUnderSharedAPIKeyIsStable TestTwoOwnersCanUseSameIdempotencyKey"},
	{"T2", "an owner uses another owner's render ID, for every RPC and route", "the same bytes as for an unknown ID", "TestForeignGenerationIsReportedLikeUnknownGeneration TestGenerationOfAnotherOwnerIsNotFound TestWatchReportsForeignGenerationLikeUnknownGeneration"},
	{"T3", "a crash at each step of an order: before and after the POST, its response and each commit", "at most one charge; without the caller, the outcome is known within a minute", "TestAnOrderOfADeadProcessIsRecovered TestEverySequenceOfEventsKeepsOrderInvariants TestOrderWithExpiredLeaseIsResumed TestOrderWithLostResponseIsResolvedWithinOneMinute TestTheLedgerEqualsCatalogAccountsDespiteProcessKills"},
	{"T4", "the ledger is slow, unavailable or full, or the result of a commit is unknown", "each response agrees with the ledger; no outcome is revoked", "TestErrorOfFullOrReadOnlyDatabaseStatesCause TestErrorOfFullOrReadOnlyFileStatesCause TestEverySequenceOfEventsKeepsOrderInvariants TestOutcomeIsUnknownIfLedgerCannotRecordIt TestTheLedgerEqualsCatalogAccountsDespiteProcessKills"},
	{"T5", "concurrent orders at the limit of a budget, on several replicas", "the limit is never exceeded; each order that fits is placed", "TestBudgetIsNeverExceeded TestLabelBudgetIsNeverExceeded TestTotalBudgetLockIsHeldBriefly TestTotalBudgetIsNeverExceeded"},
	{"T6", "a refund, while no caller watches", "the ledger records it, and the render no longer counts toward the budget", "TestBudgetMatchesChargesAndRefundsOfOrder TestRefundOfSettledOrderIsReturnedToBudget TestRefundOfUnwatchedOrderIsReturnedToBudget"},
	{"T7", "the price rises between quote and order", "the catalog's charge is recorded, reported and counted", "TestBudgetMatchesChargesAndRefundsOfOrder TestChargeAboveQuoteIsLoggedAndCounted TestLateChargeAboveQuoteIsReportedOnce TestChargeAboveReservationTriggersThresholdEvent TestFirstChargeAboveReservationIsReported"},
	{"T8", "the callers file changes, becomes invalid or loses a caller", "applied within a second; the previous content stays valid; the caller is rejected", "TestStreamEndsIfItsCallersTeamOrRoleChanges"},
	{"T9", "a replica is suspended during an attempt, another recovers the order, the first resumes", "one lease at a time; no ID is overwritten; one charge", "TestEverySequenceOfEventsKeepsOrderInvariants TestFormerLeaseHolderCannotOverwriteOutcome TestLateResponseDoesNotOverwriteRecordedOutcome TestOrderHasOneLeaseAtATime"},
	{"T10", "while orders are unknown, the API key is rotated or the ledger is used with another catalog", "they stay unknown; nothing is sent with another API key or to another catalog", "TestALedgerBelongsToOneCatalog TestAPIKeyRotationDuringRecoveryCausesNoSecondCharge TestEverySequenceOfEventsKeepsOrderInvariants TestOrderIsNotResentWithDifferentAPIKey TestOrderWithExpiredLeaseIsResumed"},
	{"T11", "the catalog no longer remembers an idempotency key", "nothing is sent after the resend window; an operator resolves the order", "TestNoOrderIsResentAfterResendWindow TestOperatorResolvesUnknownOrders TestOrderPastResendWindowNeedsOperatorResolution"},
	{"T12", "the clocks of replicas differ by a day at the end of a window", "the database's clock decides", "TestReplicasUseDatabaseClock"},

	{"M1", "a caller moves to another team while its order is quoted", "one order for each idempotency key of a caller; its settings are read again when the order is written", "TestConcurrentRequestsInTwoTeamsWriteOneOrder TestEverySequenceOfEventsKeepsOrderInvariants TestCallerCannotReuseIdempotencyKeyInNewTeam TestOrderOfRemovedCallerIsNotWritten TestCallerAndBudgetAreRecheckedAfterQuote"},
	{"M2", "one call is rejected while another places the order", "the rejection applies to one call only; before a call returns not_placed, the ledger is read again", "TestCommitWithLostResponseIsReportedAsUncertain TestEverySequenceOfEventsKeepsOrderInvariants TestLateGenerationIsAssignedToItsOriginalOrder TestOrderOnAnotherReplicaMakesRejectionUncertain"},
	{"M3", "a host disappears or is suspended during a transaction", "no lock lasts longer than 10 s; other orders continue immediately", "TestDatabaseSessionsSetIsolationAndTimeouts TestLockedOrderDelaysNoOtherOrders TestLocksOfHungTransactionExpire TestObservationOfLockedOrderFailsFast"},
	{"M4", "for a while, the catalog returns 404, or the API key belongs to another account", "an absence counts only after a minute; a later response revokes it", "TestALedgerBelongsToOneAccount TestAPIKeyWithUnidentifiedAccountIsAccepted TestAccountCheckIsRetriedUntilCatalogResponds TestAmountsStayConsistentAfterEveryObservation TestAnOrderWaitsUntilTheAccountIsKnown TestDeletionIsInferredFrom404OnlyIfAnotherReadSucceeds TestFailedAccountCheckIsRetriedWithinOneSecond TestGenerationCountsAsDeletedAfterRepeatedNotFound TestNewAPIKeyIsUsedOnlyAfterAccountCheck TestNoOrderIsSentBeforeTheAccountIsKnown TestOrderNotYetVisibleIsNotReportedAsMissing TestProxy404DoesNotDeleteGeneration TestSharedAPIKeyMustBelongToLedgerAccount"},
	{"M5", "a replica with an older callers file records a final state", "a replica that knows the team delivers the event", "TestEventWaitsUntilReceiverIsConfigured TestWaitingEventIsDeliveredBeforeLaterEvents"},
	{"M6", "the API key of the replica that settles orders is revoked", "a replica with a valid API key continues", "TestOrdersAreSettledDespiteOneRejectedAPIKey"},
	{"M7", "a charge is first reported as 0, and later in full", "the highest charge counts; the price stays reserved until the render is finished", "TestAmountsStayConsistentAfterEveryObservation"},
	{"M8", "a lost attempt, followed by rejections", "the price is reserved until the end of the resend window", "TestEverySequenceOfEventsKeepsOrderInvariants TestRejectionIsDefiniteIfKeyIsCheckedBeforeBalance TestPossibleProxyRejectionLeavesOutcomeUnknown TestReservationCountsAsSpentAfterResendWindow"},
	{"M9", "all orders of one team fail", "orders of other teams are recovered in turn", "TestFailingOrdersOfOneTeamDelayNoOtherTeam TestRecoveryAlternatesBetweenOwners TestEachRecoveryLeaseIsUsedForAnAttempt"},
	{"M10", "a forwarded API key is rotated, and the catalog returns an earlier render", "its caller gets the ID", "TestForwardedAPIKeysOfOneAccountMayShareGeneration TestSameGenerationForTwoOrdersIsReportedAsFault TestLateGenerationIsAssignedToItsOriginalOrder"},
	{"M11", "the catalog reports that the idempotency key belongs to another order", "an unknown outcome", "TestCatalogKeyReuseErrorLeavesOutcomeUnknown"},
	{"M12", "a process is suspended after it acquires a lease and before the POST", "nothing is sent after the resend window", "TestEverySequenceOfEventsKeepsOrderInvariants TestFrozenProcessSendsNoOrderAfterResendWindow TestIncompleteRequestBodyFailsAfterTimeout"},
	{"M13", "a refund after the refund window", "recorded within a day, for 30 days", "TestUnconfirmedChargeIsCheckedDailyForAMonth"},
	{"M14", "a database with another isolation level or sort order", "the same results as with the defaults", "TestConstraintViolationIsReportedAsFault TestDatabaseSessionsSetIsolationAndTimeouts TestSummaryListsEachOwnerOnceUnderICUCollation TestTransactionAbortedByConflictIsRepeated"},
	{"M15", "U+0000 in a label, or a render ID that no later request could contain", "invalid input; an unknown outcome", "TestInvalidRequestsAreRejectedWithFieldViolations TestOrderResentAfterBrokenResponseIsChargedOnce"},
	{"M16", "an order expires while it waits for a permit, is retried, or is left by a dead process", "nothing is sent afterwards; an order that was never sent releases its price", "TestAnOrderExpiresWhileItWaitsForAPermit TestAnOrderIsNotPlacedAfterItsExpireTime TestAttemptsStopAtExpireTimeOfOrder TestExpiredOrderIsNotResent TestExpiredOrderIsNotSent TestExpiredOrderOutcomeStaysUnknownAfterRestart TestLeaseEndsAtExpireTimeOfOrder TestOrderIsNotSentAfterItsExpireTime TestRejectionOfExpiredOrderReleasesAllBudgets TestTheDatabasesClockDecidesWhenAnOrderExpires"},
}

func TestEveryListedFaultHasTests(t *testing.T) {
	exist, listed := allTests(t), map[string]bool{}
	for _, f := range faults {
		tests := strings.Fields(f.tests)
		if f.what == "" || f.proof == "" || len(tests) == 0 || listed[f.id] {
			t.Errorf("fault %s (%s) lacks a description, a proof or a test, or is listed twice", f.id, f.what)
		}
		listed[f.id] = true
		for _, name := range tests {
			if !exist[name] {
				t.Errorf("fault %s: the test %s does not exist", f.id, name)
			}
		}
	}
}

// allTests returns the names of all tests and fuzz tests in the repository.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // the path is in the repository
		for _, declared := range testDeclaration.FindAllSubmatch(text, -1) {
			names[string(declared[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var testDeclaration = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
