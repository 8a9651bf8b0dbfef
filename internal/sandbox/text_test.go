package sandbox_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// write renders a text and returns it.
func (b *bubble) write(model, inputs string) string {
	b.t.Helper()
	id := b.create(fmt.Sprintf(`{"modelId":%q,"inputs":%s}`, model, inputs))
	time.Sleep(2 * time.Minute)
	text, _ := b.send("GET", "/generations/"+id, "").record(b.t)["textOutput"].(string)
	return text
}

func TestAHaikuHasFiveSevenAndFiveSyllables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBubble(t, sandbox.Config{})
		seen := map[string]bool{}
		for _, prompt := range []string{"the sea", "snow", "a starry night", "an old forest", "failing tests", "love"} {
			for seed := range 25 {
				text := b.write("studio/haiku", fmt.Sprintf(`{"prompt":%q,"seed":%d}`, prompt, seed))
				seen[text] = true
				var counts []int
				for line := range strings.SplitSeq(text, "\n") {
					counts = append(counts, syllables(line))
				}
				if !slices.Equal(counts, []int{5, 7, 5}) {
					t.Errorf("%v syllables in %q", counts, text)
				}
			}
		}
		if len(seen) < 100 {
			t.Errorf("only %d different ones in 150", len(seen))
		}
	})
}

// syllables counts groups of vowels without silent endings, with exceptions to the rule.
func syllables(line string) (n int) {
	exceptions := map[string]int{
		"quiet": 2, "lighthouse": 2, "something": 2, "everything": 3, "snowflake": 2, "moonlight": 2, "between": 2,
		"silence": 2, "nobody": 3, "being": 2, "somewhere": 2, "remembers": 3, "failing": 2, "while": 1, "noticed": 2,
	}
	for word := range strings.FieldsSeq(strings.ToLower(strings.NewReplacer(",", "", ".", "").Replace(line))) {
		if special, ok := exceptions[word]; ok {
			n += special
			continue
		}
		groups := len(vowels.FindAllString(word, -1))
		silent := strings.HasSuffix(word, "e") && !strings.HasSuffix(word, "le") || regexp.MustCompile(`[^aeiouy](es)$`).MatchString(word) && !strings.HasSuffix(word, "ches")
		if silent && groups > 1 {
			groups--
		}
		n += groups
	}
	return n
}

var vowels = regexp.MustCompile(`[aeiouy]+`)

func TestAnEssayHasTheParagraphsAskedForAndKeepsToItsSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBubble(t, sandbox.Config{})
		for _, n := range []int{1, 3, 20} {
			text := b.write("studio/essay", fmt.Sprintf(`{"prompt":"Write about slow trains.","paragraphs":%d}`, n))
			parts := strings.Split(text, "\n\n")
			if len(parts) != n+1 || len(text) < 300*n || len(text) > 1500*(n+1) {
				t.Errorf("%d paragraphs and %d bytes, want %d and a title", len(parts)-1, len(text), n)
			}
			if strings.Count(text, "slow trains") < n || strings.ContainsAny(text, "#*") {
				t.Errorf("essay: %.400s", text)
			}
		}
		if text := b.write("studio/essay", `{"prompt":"tea","title":false,"paragraphs":1}`); strings.Contains(text, "\n") {
			t.Errorf("an essay without a title: %.200s", text)
		}
	})
}

func TestTheSameInputsMakeTheSameText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBubble(t, sandbox.Config{})
		for _, model := range []string{"studio/haiku", "studio/essay"} {
			one, two := b.write(model, `{"prompt":"tea"}`), b.write(model, `{"prompt":"tea"}`)
			if one != two || one == "" || one == b.write(model, `{"prompt":"tea","seed":1}`) {
				t.Errorf("%s: %q and %q", model, one, two)
			}
		}
	})
}
