package main

import "regexp"

// pattern describes phrases that readers stumble over. It consists of a regular expression for these phrases (find),
// one for exceptions (unless), and a suggested replacement (instead).
type pattern struct {
	find, unless *regexp.Regexp
	instead      string
}

func p(find, unless, instead string) pattern {
	return pattern{regexp.MustCompile(find), regexp.MustCompile("^(?:" + unless + ")$"), instead}
}

// patterns describes the phrases to report. Each pattern applies to a single line. In a line, "¶" marks the beginning
// of a comment.
var patterns = []pattern{
	p(`\b(?:[Nn]o|[Ss]ome|[Ee]very|[Aa]ny)body\b`, ``, "name the actor: caller, operator, replica, watcher"),
	p(`(?i)\bwho(?:m|se)?ever\b|\b(?:those|all|one) who(?:m|se)?\b`, ``, "name the actor"),
	p(`\b(?:is|are|was|were) (?:what|who|whom|whose|how|why)\b.*$`, `.*\?`, "define it by a noun"),
	p(`\b(?:of|by|for|from|with|than|and|as|on) (?:what|whom)\b.*$`, `.*\?`, "name the thing"),
	p(`^¶?(?:What|Whom?|Whose)\b.*$`, `.*\?`, "begin with a noun"),
	p(`^¶(?:of|by|which|whose|whom|but|else|beside|so many)\b.*$`, `¶of returns.*`, "begin with the subject"),
	p(`^¶\w+ (?:gives|says|tells|lets|notes)\b`, ``, "begin with returns, reports, records, sends, …"),
	p(`\b(?:[Tt]ells?|told|telling)\b`, ``, "report, notify, return, log"),
	p(`\b(?:gives?|gave)\b(?: \w+)?`, `gives? (?:up|way)`, "return, grant, provide"),
	p(`\b(?:says?|said) (?:so|what|which|who|how|when|where|whether|why|nothing|it)\b`, ``, "state, report, specify"),
	p(`\b(?:[Ss]tands?|stood)\b`, ``, "be, be stored, be listed"),
	p(`\bso (?:many|much)(?:[.,;:)]|$)`, ``, "name the quantity"),
	p(`\b(?:go|goes|going|gone|went) on\b`, ``, "continue"),
	p(`\b(?:takes?|took|taken|taking) (?:it |them )?(?:in|over|out|back|away)\b(?: \w+)?`, `.* in time`, "apply, adopt, remove, roll back"),
	p(`\b(?:comes?|came|becomes?|became) of\b(?: \w+)?`, `.* age`, "the outcome of"),
	p(`\b(?:in force|in order again|at hand|in sum)\b`, ``, "active, in effect, recovered, available"),
	p(`(?i)\b(?:beside|meanwhile|lately|seldom|now and then|thereof|therein)\b`, ``, "next to, in the meantime, recently, rarely, periodically"),
	p(`\b[Mm]end(?:s|ed|ing)?\b|\bcure[sd]?\b|\bhealed\b`, ``, "fix, remedy, recover"),
	p(`(?:\w+ )?\balone\b`, `(?:let|leave|left) alone`, "only"),
	p(`(?i)\bwhere (?:it|there|they|none|one|no|this|that) (?:is|are|has|have|does|do|can|may|was|were)\b`, ``, "if, when"),
	p(`\b(?:is|are|was|were) none\b`, ``, "there is no …"),
	p(`\b(?:no|any) more(?:[.,;:)]|$)`, ``, "no longer"),
	p(`\bas \w+ (?:has|have|says?) it\b|\bas good as\b`, ``, "as defined by"),
	p(`^¶?(?:[Zz]ero|[Nn]il|none|[Ee]mpty)(?: is|:) `, ``, "Zero means …, nil if …, empty if …"),
	p(`\b[Ff]oreign (?:render|order|row|text)s?\b|\bplay money\b|\bthe book\b`, ``, "another owner's …, test money, ledger"),
}

// allowed is the pattern of findings that are not reported: those in this program's own source, which contains the patterns,
// and those in poems. Add exceptions here.
var allowed = regexp.MustCompile(`^internal/(tools/prosecheck/\w+|sandbox/paint/text)\.go:`)
