package main

import (
	"slices"
	"strings"
	"testing"
)

func TestBannedPhrasesInAddedLinesAreReported(t *testing.T) {
	diff := strings.Join([]string{
		"diff --git a/a.go b/a.go", "--- a/a.go", "+++ b/a.go", "@@ -1,3 +1,5 @@",
		"+// Wait gives the exit code.",
		"+func Wait() { fail(\"nobody can read this\") }",
		" // An unchanged line, which somebody wrote.",
		"-// whoever reads it",
		"+var told = 1 // of the caller",
		"diff --git a/p.md b/p.md", "--- a/p.md", "+++ b/p.md", "@@ -1,4 +1,4 @@",
		"+A command is `easel tell`, and gives up after a minute.",
		"+```", "+whoever is quoted", "+```",
		"+It goes on.", "",
	}, "\n")
	want := []string{
		`a.go:1: "Wait gives": begin with returns, reports, records, sends, …`,
		`a.go:1: "gives the": return, grant, provide`,
		`a.go:2: "nobody": name the actor: caller, operator, replica, watcher`,
		`a.go:4: "of the caller": begin with the subject`,
		`p.md:5: "goes on": continue`,
	}
	if got := checkDiff(diff); !slices.Equal(got, want) {
		t.Errorf("found\n%s", strings.Join(got, "\n"))
	}
}

func TestProseCheckSkipsGeneratedFilesAndTestMessages(t *testing.T) {
	for _, path := range []string{"a_test.go", "gen/proto/a.proto", "docs/contract.md", "a.png"} {
		if got := checkDiff("+++ b/" + path + "\n+\tt.Error(\"nobody gives this\")\n"); len(got) > 0 {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestEachProsePatternMatchesItsExample(t *testing.T) {
	lines := []string{
		"nobody reads it", "whoever reads it", "this is what it reads", "the time of what was read", "What is due is sent", "¶of the caller", "¶It gives a value",
		"it is told", "it gives a value", "it says so", "it stands here", "it reads so many.", "it goes on", "it takes over the rest", "what comes of it", "it is in force", "meanwhile it waits",
		"the mended row", "for it alone", "where it is set", "there were none", "no more.", "as HTTP has it", "nil: the default", "a foreign render",
	}
	for n, one := range patterns {
		if match := one.find.FindString(lines[n]); match == "" || one.unless.MatchString(match) {
			t.Errorf("%s does not match %q", one.find, lines[n])
		}
	}
	for _, fine := range []string{"Who may call it?", "it gives up", "left alone", "nil if it is unset", "in time", "¶Wait returns the exit code."} {
		if found := matchPatterns(fine); len(found) > 0 {
			t.Errorf("%q: %q", fine, found)
		}
	}
}
