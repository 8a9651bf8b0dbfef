package events_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// The example signature is from the libraries of the Standard Webhooks specification.
func TestSignatureMatchesStandardWebhooksExample(t *testing.T) {
	secrets, err := events.ParseSecrets([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := secrets.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}

func TestSecretFileMustContainOneOrTwoSecrets(t *testing.T) {
	for text, want := range map[string]int{
		oneSecret: 1, oneSecret + "\n": 1, oneSecret + "\r\n": 1, oneSecret + "\n" + otherSecret: 2, "": 0, "\n": 0, oneSecret + "\n\n" + otherSecret: 0,
		oneSecret + "\n" + oneSecret + "\n" + oneSecret: 0, strings.TrimPrefix(oneSecret, "whsec_"): 0, "whsec_": 0, "whsec_c2hvcnQ=": 0, "whsec_!": 0, " " + oneSecret: 0,
	} {
		secrets, err := events.ParseSecrets([]byte(text))
		if len(secrets) != want || (err == nil) != (want > 0) {
			t.Errorf("%q has %d secrets, %v", text, len(secrets), err)
		}
		if err != nil && strings.Contains(err.Error(), "ZWFz") {
			t.Errorf("the error contains a secret from the file: %v", err)
		}
	}
}

func TestWebhookBodyIsCloudEvent(t *testing.T) {
	at := time.Date(2027, 1, 31, 12, 0, 0, 5000, time.UTC)
	text, err := events.Document(ledger.Event{ID: "evt_1", Owner: "studio", Type: ledger.EventBudget, Subject: "day.2027-01-31", Percent: 80, Time: at, Data: `{"spentCents":"7"}`})
	want := `{"specversion":"1.0","id":"evt_1","source":"/easel/teams/studio","type":"easel.budget.threshold","subject":"day.2027-01-31",` +
		`"time":"2027-01-31T12:00:00.000005Z","datacontenttype":"application/json","percent":80,"data":{"spentCents":"7"}}`
	if err != nil || string(text) != want {
		t.Errorf("the document differs from the expected CloudEvent: %s, %v", text, err)
	}
}

// onEach runs a test in real time with each kind of database.
func onEach(t *testing.T, test func(*office)) {
	t.Helper()
	proctest.OnEach(t, func(t *testing.T, url string) { test(newOffice(t, url)) })
}

func TestAReceiverGetsASignedDocumentOverHTTP(t *testing.T) {
	onEach(t, func(o *office) {
		got := make(chan post, 10)
		elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { o.Error("a redirect was followed") }))
		defer elsewhere.Close()
		answers := []int{http.StatusTemporaryRedirect, http.StatusOK}
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got <- post{id: r.Method + " " + r.RequestURI, header: r.Header, body: body}
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(answers[0])
			answers = answers[1:]
		}))
		defer receiver.Close()
		o.teams.Set(map[string]events.Team{"studio": {URL: receiver.URL + "/a?b=c", SecretFile: o.secrets}})
		defer o.runSender(o.newSender(nil))()
		o.placeOrder("studio", "g1", lifecycle.Succeeded)
		for range 2 {
			var p post
			select {
			case p = <-got:
			case <-time.After(time.Minute):
				o.Fatal("the event was not resent")
			}
			secrets, _ := events.ParseSecrets([]byte(oneSecret))
			seconds := int64(0)
			_, _ = fmt.Sscan(p.header.Get("webhook-timestamp"), &seconds)
			if p.id != "POST /a?b=c" || p.header.Get("webhook-signature") != secrets.Sign(p.header.Get("webhook-id"), time.Unix(seconds, 0), p.body) ||
				p.header.Get("content-type") != events.ContentType || p.header.Get("user-agent") != "easel" || time.Since(time.Unix(seconds, 0)) > time.Minute {
				o.Errorf("the receiver got %+v", p)
			}
			document := map[string]any{}
			if err := json.Unmarshal(p.body, &document); err != nil || document["id"] != p.header.Get("webhook-id") || document["subject"] != "g1" {
				o.Errorf("the document is %s, %v", p.body, err)
			}
		}
	})
}

func TestUntrustedReceiverCertificateIsRejected(t *testing.T) {
	onEach(t, func(o *office) {
		receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { o.Error("the receiver got a request") }))
		receiver.Config.ErrorLog = log.New(io.Discard, "", 0)
		receiver.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		receiver.StartTLS()
		defer receiver.Close()
		o.teams.Set(map[string]events.Team{"studio": {URL: receiver.URL + "/with-a-token", SecretFile: o.secrets}})
		defer o.runSender(o.newSender(nil))()
		o.placeOrder("studio", "g1", lifecycle.Succeeded)
		for {
			all, err := o.ledger.Events(o.Context(), ledger.EventFilter{}, 10)
			if err != nil || len(all) != 1 {
				o.Fatalf("the events are %+v, %v", all, err)
			}
			if all[0].Attempts > 0 {
				if p := all[0].Problem; !strings.Contains(p, "certificate") || strings.Contains(p, "with-a-token") {
					o.Errorf("the problem is %q", p)
				}
				return
			}
		}
	})
}

func TestEventIsNotSentWithoutSigningSecret(t *testing.T) {
	inOffice(t, func(o *office) {
		o.registerTeams("studio")
		if err := os.Remove(o.secrets); err != nil {
			o.Fatal(err)
		}
		defer o.runSender(o.newSender(o.receivers))()
		o.placeOrder("studio", "g1", lifecycle.Succeeded)
		time.Sleep(10 * time.Second)
		all, err := o.ledger.Events(o.Context(), ledger.EventFilter{}, 10)
		if err != nil || len(all) != 1 || all[0].Attempts == 0 || all[0].Problem == "" || len(o.got("studio")) != 0 {
			o.Fatalf("without a secret the events are %+v, %v, and %d events were sent", all, err, len(o.got("studio")))
		}
		proctest.Write(o, o.secrets, oneSecret)
		time.Sleep(time.Minute)
		if got := len(o.got("studio")); got != 1 {
			o.Errorf("with a secret %d events were sent, want 1", got)
		}
	})
}
