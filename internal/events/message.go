package events

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// ContentType is the media type of an event's document.
const ContentType = "application/cloudevents+json; charset=utf-8"

// document is the JSON form of an event, as CloudEvents 1.0 defines it.
type document struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject"`
	Time            time.Time       `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Percent         int64           `json:"percent,omitempty"`
	Data            json.RawMessage `json:"data"`
}

// Document returns an event as a CloudEvents document. Every delivery of the event sends the same document.
func Document(e ledger.Event) ([]byte, error) {
	return json.Marshal(document{
		SpecVersion: "1.0", ID: e.ID, Source: "/easel/teams/" + e.Owner, Type: e.Type, Subject: e.Subject, Time: e.Time,
		DataContentType: "application/json", Percent: e.Percent, Data: json.RawMessage(e.Data),
	})
}

// Secrets are the signing secrets of a receiver. Each request to the receiver carries one signature for each secret.
type Secrets [][]byte

const (
	secretPrefix            = "whsec_"
	leastSecret, mostSecret = 24, 64 // minimum and maximum length of a secret, in bytes
)

// ParseSecrets parses the content of a file with signing secrets. It uses only contents[0]. Each line is a secret. The file
// has one line, or two lines during a rotation. Errors from ParseSecrets never contain a secret.
func ParseSecrets(contents ...[]byte) (all Secrets, err error) {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(string(contents[0]), "\r\n", "\n"), "\n"), "\n")
	if len(lines) > 2 {
		return nil, errors.New("has more than two lines; expected: one secret, or two during a rotation")
	}
	for _, line := range lines {
		text, prefixed := strings.CutPrefix(line, secretPrefix)
		secret, err := base64.StdEncoding.DecodeString(text)
		if !prefixed || err != nil || len(secret) < leastSecret || len(secret) > mostSecret {
			return nil, errors.New("contains an invalid secret; expected: " + secretPrefix + " followed by the base64 of 24 to 64 random bytes")
		}
		all = append(all, secret)
	}
	return all, nil
}

// Sign returns the Standard Webhooks signatures of a document, one for each secret, separated by spaces.
func (s Secrets) Sign(id string, at time.Time, body []byte) string {
	signatures := make([]string, len(s))
	for n, secret := range s {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures[n] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// newRequest returns the POST request that delivers an event.
func newRequest(ctx context.Context, url string, secrets Secrets, e ledger.Event, at time.Time) (*http.Request, error) {
	body, err := Document(e)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", ContentType)
	r.Header.Set("User-Agent", "easel")
	r.Header.Set("Webhook-Id", e.ID)
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("Webhook-Signature", secrets.Sign(e.ID, at, body))
	return r, nil
}
