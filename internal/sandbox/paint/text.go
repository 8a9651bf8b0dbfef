package paint

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// themes are what a haiku may be about: words of the prompt, first lines of five syllables, nouns of two and of
// three. The last one is for all other prompts.
var themes = [][4]string{
	{"sea ocean beach wave water lake river boat", "where the water ends|salt upon the wind|on a slow low tide", "the tide|a gull|white foam|the boat", "a lighthouse|the heron|an old boat"},
	{"snow winter ice frost cold", "on the first white day|under heavy snow|in the frozen field", "fresh snow|a crow|the frost|one track", "a snowflake|the bare branch|the still pond"},
	{"night moon star dark sleep", "in the dark of night|when the lamps go out|moonlight on the floor", "the moon|an owl|one star|a moth", "the night train|a shadow|a far bell"},
	{"forest tree wood leaf autumn fall", "between cedar trees|under falling leaves|in the deep green shade", "a leaf|the pine|the moss|a deer", "the tall fern|a red leaf|a small brook"},
	{"code server computer api machine data test", "in the server room|while the build runs on|one more failing test", "the log|a loop|one bit|the patch", "the cursor|a green check|a packet"},
	{"", "in the morning light|at the end of day|under open sky|in a quiet hour", "a bird|the wind|the path|old stone|a cloud", "the garden|a lantern|a sparrow"},
}

// A noun of two syllables takes a verb of five, a noun of three one of four.
const (
	verbs5 = "keeps its own counsel|folds into the blue|leaves without a word|remembers the way|listens to itself|comes back once again"
	verbs4 = "drifts into sleep|counts up to ten|asks for nothing|waits for the rain|follows the light|answers no one"
	ends   = "and the day goes on|nobody else there|then only the wind|how soft, how far off|something like a song|all of it in bloom|I had not noticed|the tea has gone cold"
)

// Haiku writes three lines of five, seven and five syllables.
func Haiku(v Values) Artifact {
	rnd, theme := v.random(), themes[len(themes)-1]
	if n := slices.IndexFunc(themes, func(t [4]string) bool { return mentions(v.Text("prompt"), t[0]) }); n >= 0 {
		theme = themes[n]
	}
	middle := deal(rnd, theme[2])() + " " + deal(rnd, verbs5)()
	if rnd.IntN(2) == 0 {
		middle = deal(rnd, theme[3])() + " " + deal(rnd, verbs4)()
	}
	return Artifact{Text: deal(rnd, theme[1])() + "\n" + middle + "\n" + deal(rnd, ends)()}
}

// In the sentences of an essay, # stands for the subject and * for something that belongs to it.
const (
	titles = "On #|In Praise of #|A Short Account of #|What # Leaves Behind|Notes on #|The Patience of #"
	claims = "Few things are as easy to overlook as #.|Whoever writes about # soon writes about something else as well.|" +
		"There are two ways to look at #, and most people know only the first.|What strikes a visitor first about # is *."
	thoughts = "It begins with *, and for a while that seems to be enough.|Look closer, and * turns out to carry most of the weight.|" +
		"This is not a matter of taste: * can be counted, and it has been.|The older accounts speak of *, though they seldom agree on why.|" +
		"One could object that * is the exception, and one would be half right.|It helps to remember that * came late, and nearly by accident."
	turns = "That may be the best reason to begin again.|So the question is not whether, but how patiently.|" +
		"Seen like this, # looks less like a puzzle than like a habit.|From there it is only a short step to the next question."
	belongings = "the light on a plain day|a habit of attention|the work of other hands|a long silence|the edge of the picture|what is left out|the weather|an old argument"
)

// Essay writes paragraphs about the prompt.
func Essay(v Values) Artifact {
	rnd, subject := v.random(), subjectOf(v.Text("prompt"))
	var parts []string
	if v.flag("title") {
		parts = append(parts, strings.ReplaceAll(deal(rnd, titles)(), "#", subject))
	}
	claim, thought, turn, thing := deal(rnd, claims), deal(rnd, thoughts), deal(rnd, turns), deal(rnd, belongings)
	for range v.Integer("paragraphs") {
		lines := []string{claim(), thought(), thought(), thought(), thought(), turn()}
		for i, line := range lines {
			line = strings.ReplaceAll(strings.ReplaceAll(line, "*", thing()), "#", subject)
			first, n := utf8.DecodeRuneInString(line)
			lines[i] = string(unicode.ToUpper(first)) + line[n:]
		}
		parts = append(parts, strings.Join(lines, " "))
	}
	return Artifact{Text: strings.Join(parts, "\n\n")}
}

// deal gives texts one by one, and none twice before all have come once.
func deal(rnd *rand.Rand, from string) (next func() string) {
	all, n := strings.Split(from, "|"), 0
	return func() string {
		if n++; n%len(all) == 1 || len(all) == 1 {
			rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		return all[n%len(all)]
	}
}

// subjectOf is what an essay about the prompt would be about: the prompt without the request around it.
func subjectOf(prompt string) string {
	subject := strings.Join(strings.Fields(prompt), " ")
	for _, lead := range []string{"please ", "write ", "an essay ", "a text ", "about ", "on "} {
		if len(subject) > len(lead) && strings.EqualFold(subject[:len(lead)], lead) {
			subject = subject[len(lead):]
		}
	}
	runes := []rune(strings.Trim(subject, ".!? "))
	return cmp.Or(string(runes[:min(len(runes), 80)]), "nothing in particular")
}
