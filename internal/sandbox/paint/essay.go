package paint

import (
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An essay is made of paragraphs, a paragraph of a claim, some thoughts and a turn. In the sentences, # stands for the
// subject and * for something that belongs to it.
var (
	claims = []string{
		"Few things are as easy to overlook as #.",
		"Whoever writes about # soon writes about something else as well.",
		"There are two ways to look at #, and most people know only the first.",
		"It is tempting to think of # as settled.",
		"Ask ten people about #, and you will hear eleven answers.",
		"Nobody learns about # from a book alone.",
		"What strikes a visitor first about # is *.",
		"The history of # is mostly a history of small corrections.",
	}
	thoughts = []string{
		"It begins with *, and for a while that seems to be enough.",
		"Look closer, and * turns out to carry most of the weight.",
		"This is not a matter of taste: * can be counted, and it has been.",
		"The older accounts speak of *, though they seldom agree on why.",
		"A beginner sees effort there; someone with practice sees *.",
		"Without *, the rest would hold for a day at most.",
		"One could object that * is the exception, and one would be half right.",
		"In a good year the difference is hard to see, but * shows it.",
		"It helps to remember that * came late, and nearly by accident.",
		"Between * and the plan lies everything that matters.",
		"Those who stay with it longest talk about * and very little else.",
	}
	turns = []string{
		"That may be the best reason to begin again.",
		"So the question is not whether, but how patiently.",
		"And yet the thing itself remains, quite unimpressed by our opinions.",
		"Perhaps that is all one can ask of it.",
		"The rest is practice.",
		"Seen like this, # looks less like a puzzle than like a habit.",
		"It is a modest conclusion, but it has the merit of being true.",
		"From there it is only a short step to the next question.",
	}
	belongings = []string{
		"the light on a plain day", "a habit of attention", "the work of other hands", "a long silence", "the edge of the picture",
		"what is left out", "the weather", "a patient kind of order", "the first mistake", "the distance between two points",
		"an old argument", "the shape of the whole", "a certain lightness", "the cost of keeping it", "the part that nobody sees",
	}
	titles = []string{"On #", "In Praise of #", "A Short Account of #", "What # Leaves Behind", "Notes on #", "The Patience of #"}
)

// Essay writes paragraphs about the prompt.
func Essay(v Values) Artifact {
	rnd := rand.New(rand.NewPCG(v.seed(), 2))
	subject := subjectOf(v.Text("prompt"))
	var parts []string
	if v.flag("title") {
		parts = append(parts, strings.ReplaceAll(pick(rnd, titles), "#", subject))
	}
	firsts, lasts := &deck{from: claims}, &deck{from: turns}
	middles, things := &deck{from: thoughts}, &deck{from: belongings}
	for range v.Integer("paragraphs") {
		lines := []string{firsts.next(rnd)}
		for range 3 + rnd.IntN(3) {
			lines = append(lines, middles.next(rnd))
		}
		lines = append(lines, lasts.next(rnd))
		for i, line := range lines {
			line = strings.ReplaceAll(line, "*", things.next(rnd))
			lines[i] = capital(strings.ReplaceAll(line, "#", subject))
		}
		parts = append(parts, strings.Join(lines, " "))
	}
	return Artifact{Text: strings.Join(parts, "\n\n")}
}

// deck deals sentences so that none comes twice before all have come once.
type deck struct{ from, left []string }

func (d *deck) next(rnd *rand.Rand) string {
	if len(d.left) == 0 {
		d.left = slices.Clone(d.from)
		rnd.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	top := d.left[0]
	d.left = d.left[1:]
	return top
}

// subjectOf is what an essay about the prompt would be about: the prompt without the request around it.
func subjectOf(prompt string) string {
	subject := strings.Join(strings.Fields(prompt), " ")
	for _, lead := range []string{"please ", "write ", "an essay ", "a text ", "about ", "on "} {
		if len(subject) > len(lead) && strings.EqualFold(subject[:len(lead)], lead) {
			subject = subject[len(lead):]
		}
	}
	subject = strings.TrimRight(subject, ".!? ")
	if runes := []rune(subject); len(runes) > 80 {
		subject = strings.TrimRightFunc(string(runes[:80]), func(r rune) bool { return !unicode.IsSpace(r) })
	}
	if subject = strings.TrimSpace(subject); subject == "" {
		return "nothing in particular"
	}
	return subject
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
