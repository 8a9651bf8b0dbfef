package sandbox_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// writeText creates a generation whose result is a text, waits long enough for it to finish, and
// returns the text.
func (b *account) writeText(model, inputs string) string {
	b.t.Helper()
	id := b.create(fmt.Sprintf(`{"modelId":%q,"inputs":%s}`, model, inputs))
	time.Sleep(2 * time.Minute)
	text, _ := b.do("GET", "/generations/"+id, "").record(b.t)["textOutput"].(string)
	return text
}

func TestEssayHasRequestedParagraphsAndSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAccount(t, sandbox.Config{})
		for _, n := range []int{1, 3, 20} {
			text := b.writeText("studio/essay", fmt.Sprintf(`{"prompt":"Write about slow trains.","paragraphs":%d}`, n))
			parts := strings.Split(text, "\n\n")
			if len(parts) != n+1 || len(text) < 300*n || len(text) > 1500*(n+1) {
				t.Errorf("got %d paragraphs and %d bytes, want a title and %d paragraphs of normal length", len(parts)-1, len(text), n)
			}
			if strings.Count(text, "slow trains") < n || strings.ContainsAny(text, "#*") {
				t.Errorf("the essay lacks its subject or contains Markdown: %.400s", text)
			}
		}
		if text := b.writeText("studio/essay", `{"prompt":"tea","title":false,"paragraphs":1}`); strings.Contains(text, "\n") {
			t.Errorf("the essay without a title contains a line break: %.200s", text)
		}
	})
}

func TestIdenticalInputsProduceIdenticalTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAccount(t, sandbox.Config{})
		for _, model := range []string{"studio/haiku", "studio/essay"} {
			one, two := b.writeText(model, `{"prompt":"tea"}`), b.writeText(model, `{"prompt":"tea"}`)
			if one != two || one == "" || one == b.writeText(model, `{"prompt":"tea","seed":1}`) {
				t.Errorf("%s: got %q and %q, want one text twice, and a different text with a seed", model, one, two)
			}
		}
	})
}
