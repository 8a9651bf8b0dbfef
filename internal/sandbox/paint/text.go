package paint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// themes contains the themes of haikus. Each theme has three lists: cues, first lines of five syllables, and phrases of two
// syllables that begin the second line. A haiku uses the first theme with a cue that occurs in the prompt. If there is none, it
// uses the last theme.
var themes = [][3]string{
	{"sea ocean beach wave water lake river boat", "where the water ends|salt upon the wind|on a slow low tide", "the tide|a gull|white foam|the boat"},
	{"snow winter ice frost cold", "on the first white day|under heavy snow|in the frozen field", "fresh snow|a crow|the frost|one track"},
	{"night moon star dark sleep", "in the dark of night|when the lamps go out|moonlight on the floor", "the moon|an owl|one star|a moth"},
	{"forest tree wood leaf autumn fall", "between cedar trees|under falling leaves|in the deep green shade", "a leaf|the pine|the moss|a deer"},
	{"code server computer api machine data test", "in the server room|while the build runs on|one more failing test", "the log|a loop|one bit|the patch"},
	{"", "in the morning light|at the end of day|under open sky|in a quiet hour", "a bird|the wind|the path|old stone|a cloud"},
}

const (
	verbs = "keeps its own counsel|folds into the blue|leaves without a word|remembers the way|listens to itself|comes back once again"
	ends  = "and the day goes on|nobody else there|then only the wind|how soft, how far off|something like a song|all of it in bloom|I had not noticed|the tea has gone cold"
)

// Haiku returns a text of three lines with five, seven and five syllables.
func Haiku(v Values) Artifact {
	rnd := v.newRandom()
	theme := themes[slices.IndexFunc(themes, func(t [3]string) bool { return t[0] == "" || mentionsCue(v.Text("prompt"), t[0]) })]
	return Artifact{Text: shuffleParts(rnd, theme[1])() + "\n" + shuffleParts(rnd, theme[2])() + " " + shuffleParts(rnd, verbs)() + "\n" + shuffleParts(rnd, ends)()}
}

// Titles and sentences of essays, separated by |. The essay's subject replaces each #.
const (
	titles    = "On #|In Praise of #|A Short Account of #|What # Leaves Behind|Notes on #|The Patience of #"
	sentences = "Few things are as easy to overlook as #.|There are two ways to look at #, and most people know only the first.|" +
		"What strikes a visitor first about # is the light on a plain day.|Seen like this, # looks less like a puzzle than like a habit.|" +
		"Look closer, and the work of other hands turns out to carry most of the weight.|That may be the best reason to begin again.|" +
		"This is not a matter of taste: what is left out can be counted, and it has been.|The older accounts speak of the weather, though they seldom agree on why."
)

// Essay returns a text of several paragraphs about the prompt.
func Essay(v Values) Artifact {
	words := strings.Split(v.Text("prompt"), "about ")
	rnd, subject := v.newRandom(), strings.Trim(fmt.Sprintf("%.80s", words[len(words)-1]), ".!? \n")
	title, sentence := shuffleParts(rnd, titles), shuffleParts(rnd, sentences)
	var parts []string
	if v["title"] == true {
		parts = append(parts, title())
	}
	for range v.Integer("paragraphs") {
		parts = append(parts, strings.Join([]string{sentence(), sentence(), sentence(), sentence(), sentence()}, " "))
	}
	return Artifact{Text: strings.ReplaceAll(strings.Join(parts, "\n\n"), "#", subject)}
}

// shuffleParts splits a string at each |, and shuffles the parts. It returns a function that returns the next part at each
// call, and starts again after the last part.
func shuffleParts(rnd *rand.Rand, from string) (next func() string) {
	all, n := strings.Split(from, "|"), 0
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return func() string {
		n++
		return all[n%len(all)]
	}
}
