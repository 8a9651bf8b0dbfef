package watch

import (
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestARecordIsReadWithTheAPIKeyInItsRowAlone(t *testing.T) {
	own, other := newSeal(catalog.NewSecret("an API key")), newSeal(catalog.NewSecret("another one"))
	const text = `{"prompt":"nobody else's business"}`
	sealed := own.close("a", []byte(text))
	if strings.Contains(sealed, "prompt") || sealed == own.close("a", []byte(text)) {
		t.Errorf("it is sealed as %s", sealed)
	}
	if got, err := own.open("a", sealed); err != nil || string(got) != text {
		t.Errorf("it is opened as %q, %v", got, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"another row":     func() ([]byte, error) { return own.open("b", sealed) },
		"another API key": func() ([]byte, error) { return other.open("a", sealed) },
		"no API key":      func() ([]byte, error) { return seal{}.open("a", sealed) },
		"no text":         func() ([]byte, error) { return own.open("a", "") },
		"a broken text":   func() ([]byte, error) { return own.open("a", sealed[:len(sealed)-4]) },
	} {
		if got, err := open(); err == nil {
			t.Errorf("%s opens it as %q", name, got)
		}
	}
}
