package cli

import (
	"net"
	"strings"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	noKeyCure    = "Set EASEL_API_KEY, or --api-key-file."
	callerCure   = "This server knows its callers by name: EASEL_API_KEY or --api-key-file takes a service token, --tls-cert-file and --tls-key-file a certificate."
	rejectedCure = "Check EASEL_API_KEY or --api-key-file; where the server holds the key, tell its operator."
	modelCure    = "easel models lists what there is."
	awayCure     = "Is the server running there? See --addr, --tls where it speaks TLS, and --tls-cert-file where it demands a certificate."
)

// fitted makes what helps fit what this run has sent, and where.
func (p *Program) fitted(cure string) string {
	if p.keyFrom != "" {
		cure = strings.Replace(cure, noKeyCure, "The one from "+p.keyFrom+" was sent, and it is wrong for this server.", 1)
	}
	if host, _, err := net.SplitHostPort(p.addr); err == nil && IsLoopback(host) {
		cure = strings.Replace(cure, rejectedCure, rejectedCure+
			" The sandbox of easel dev forgets its keys when it ends, unless it has --db.", 1)
	}
	if p.likelyModel != "" {
		cure = strings.Replace(cure, modelCure, "Did you mean "+p.likelyModel+"? "+modelCure, 1)
	}
	if p.addr != "" && !strings.Contains(p.addr, ":") {
		cure = strings.Replace(cure, awayCure, "--addr "+p.addr+" has no port, so 443 was tried: mostly it is "+p.addr+":50051. "+awayCure, 1)
	}
	return cure
}

// unreached is what a connection that failed says, and what helps; the first that fits counts.
var unreached = []struct{ said, cure string }{
	{"certificate signed by unknown authority", "This machine does not trust who signed the server's certificate: --tls-ca-file names the certificates to trust."},
	{"certificate has expired", "The server's certificate is out of date, or this machine's clock is wrong."},
	{"failed to verify certificate", "The server's certificate is for another name: --addr must have one that stands in it."},
	{"certificate required", "The server demands a certificate: --tls-cert-file and --tls-key-file name yours."},
	{"bad certificate", "The server does not take this certificate: --tls-cert-file and --tls-key-file name yours."},
	{"first record does not look like a TLS handshake", "The server speaks no TLS there: leave out --tls and what else asks for TLS (--tls-ca-file, EASEL_TLS)."},
	{"error reading server preface", "Does the server speak TLS there? Then add --tls. Else see --addr."},
	{"produced zero addresses", "There is no host of this name: see --addr."},
	{"no such host", "There is no host of this name: see --addr."},
}

// cureOf says what helps, where that is known.
func cureOf(code codes.Code, reason, message string) string {
	cures := map[easelv1.ErrorReason]string{
		easelv1.ErrorReason_INSUFFICIENT_BALANCE:         "Top up the account, then send the same order again with its --idempotency-key.",
		easelv1.ErrorReason_PRICE_ABOVE_LIMIT:            "Raise --max-cost, and send the same order again.",
		easelv1.ErrorReason_API_KEY_DAILY_CAP:            "The API key has spent what it may today. Wait for the next day, then send the same order again with its --idempotency-key.",
		easelv1.ErrorReason_BUDGET_EXCEEDED:              "easel account shows the budgets, and when the next one begins.",
		easelv1.ErrorReason_MODEL_NOT_ALLOWED:            "The operator of the server says which models a team may order from.",
		easelv1.ErrorReason_LEDGER_UNAVAILABLE:           "Try again a little later.",
		easelv1.ErrorReason_SUBMISSION_OUTCOME_UNKNOWN:   "Send the same order again with the same --idempotency-key and the same API key, within 12 hours: so it is not charged twice.",
		easelv1.ErrorReason_SUBMISSION_IN_PROGRESS:       "Send the same order again with the same --idempotency-key.",
		easelv1.ErrorReason_UPSTREAM_CREDENTIAL_REJECTED: rejectedCure,
		easelv1.ErrorReason_CALLER_UNKNOWN:               noKeyCure + " " + callerCure,
		easelv1.ErrorReason_MODEL_NOT_FOUND:              modelCure,
		easelv1.ErrorReason_GENERATION_ACTIVE:            "The render is not finished. --force deletes it all the same; its price may not come back.",
		easelv1.ErrorReason_CONTENT_NOT_READY:            "easel download --wait 10m waits for the result.",
		easelv1.ErrorReason_GENERATION_NOT_FOUND:         "easel list shows the renders of this API key.",
	}
	if cure := cures[reasonNamed(reason)]; cure != "" {
		return cure
	}
	switch code {
	case codes.Unauthenticated:
		return noKeyCure
	case codes.Unavailable:
		if reason != "" {
			return ""
		}
		for _, cause := range unreached {
			if strings.Contains(message, cause.said) {
				return cause.cure
			}
		}
		return awayCure
	case codes.Unimplemented:
		return "The server at this address does not speak easel.v1. Is it the admin port? With TLS the REST port answers so, too. See --addr."
	case codes.DeadlineExceeded:
		return "--timeout sets how long to wait."
	}
	return ""
}
