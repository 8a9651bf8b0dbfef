package paint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// syllabled is a list of phrases by their number of syllables. It is the whole dictionary of the haiku: a line
// is made of phrases whose counts add up.
type syllabled map[int][]string

// themes lets words of the prompt choose what the haiku is about. The first one is for all other prompts.
var themes = []struct {
	cues  []string
	first syllabled // openings and closings, whole lines of five
	noun  syllabled
}{
	{
		nil,
		syllabled{5: {"in the morning light", "at the end of day", "under open sky", "in a quiet hour", "after all the noise"}},
		syllabled{2: {"a bird", "the wind", "the path", "old stone", "a cloud"}, 3: {"the garden", "a lantern", "the old gate", "a sparrow"}},
	},
	{
		[]string{"sea", "ocean", "beach", "wave", "water", "lake", "river", "boat"},
		syllabled{5: {"where the water ends", "salt upon the wind", "on a slow low tide", "past the harbour wall"}},
		syllabled{2: {"the tide", "a gull", "white foam", "the boat"}, 3: {"a lighthouse", "the heron", "grey water", "an old boat"}},
	},
	{
		[]string{"snow", "winter", "ice", "frost", "cold"},
		syllabled{5: {"on the first white day", "under heavy snow", "when the pond is still", "in the frozen field"}},
		syllabled{2: {"fresh snow", "a crow", "the frost", "one track"}, 3: {"a snowflake", "the bare branch", "white silence", "the still pond"}},
	},
	{
		[]string{"night", "moon", "star", "dark", "sleep"},
		syllabled{5: {"in the dark of night", "when the lamps go out", "under many stars", "moonlight on the floor"}},
		syllabled{2: {"the moon", "an owl", "one star", "a moth"}, 3: {"the night train", "a shadow", "the cricket", "a far bell"}},
	},
	{
		[]string{"forest", "tree", "wood", "leaf", "autumn", "fall"},
		syllabled{5: {"between cedar trees", "where the path goes on", "under falling leaves", "in the deep green shade"}},
		syllabled{2: {"a leaf", "the pine", "the moss", "a deer"}, 3: {"the tall fern", "a red leaf", "the birch wood", "a small brook"}},
	},
	{
		[]string{"code", "server", "computer", "api", "machine", "data", "test"},
		syllabled{5: {"in the server room", "while the build runs on", "one more failing test", "at the blinking prompt"}},
		syllabled{2: {"the log", "a loop", "one bit", "the patch"}, 3: {"the cursor", "a green check", "the night job", "a packet"}},
	},
}

// verbs continue a noun; the nouns above and these make the line of seven.
var verbs = syllabled{
	4: {"drifts into sleep", "counts up to ten", "asks for nothing", "waits for the rain", "follows the light", "answers no one"},
	5: {"keeps its own counsel", "folds into the blue", "leaves without a word", "remembers the way", "listens to itself", "comes back once again"},
}

var endings = syllabled{5: {
	"and the day goes on", "nobody else there", "then only the wind", "how soft, how far off", "something like a song",
	"all of it in bloom", "I had not noticed", "and I stay a while", "the tea has gone cold", "everything is here",
}}

// Haiku writes three lines of five, seven and five syllables.
func Haiku(v Values) Artifact {
	rnd := rand.New(rand.NewPCG(v.seed(), 1))
	theme := themes[0]
	for _, t := range themes[1:] {
		if mentions(v.Text("prompt"), t.cues...) {
			theme = t
			break
		}
	}
	of := 2 + rnd.IntN(2)
	middle := pick(rnd, theme.noun[of]) + " " + pick(rnd, verbs[7-of])
	return Artifact{Text: fmt.Sprintf("%s\n%s\n%s", pick(rnd, theme.first[5]), middle, pick(rnd, endings[5]))}
}

func pick(rnd *rand.Rand, from []string) string { return from[rnd.IntN(len(from))] }

// mentions reports whether one of the cues is a word of the text, in singular or plural.
func mentions(text string, cues ...string) bool {
	return slices.ContainsFunc(words(text), func(word string) bool {
		return slices.ContainsFunc(cues, func(cue string) bool { return word == cue || word == cue+"s" || word == cue+"y" })
	})
}

// words are the words of a text in lower case.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r != '\'' && r != '-' && (r < '0' || r > '9' && r < 'a' || r > 'z' && r < 0x80)
	})
}
