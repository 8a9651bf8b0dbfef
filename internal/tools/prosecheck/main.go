// Command prosecheck finds phrases that readers stumble over. It checks the comments, messages and documentation in the lines that
// were added since a commit, and fails if it finds such a phrase. A person must still read a change without findings.
package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: prosecheck ROOT COMMIT")
	}
	// The diff contains complete files, because only the lines before a changed line show whether it is in a code block.
	diff := exec.Command("git", "-C", os.Args[1], "diff", "--unified=1000000", "--no-color", "--no-ext-diff", "--diff-filter=d", os.Args[2], "--")
	diff.Stderr = os.Stderr
	out, err := diff.Output()
	if err != nil {
		log.Fatal("prosecheck: git diff: ", err)
	}
	if findings := checkDiff(string(out)); len(findings) > 0 {
		log.Fatal(strings.Join(findings, "\n"))
	}
}

// checkDiff returns the findings in the added lines of a diff.
func checkDiff(diff string) (findings []string) {
	var f file
	for line := range strings.Lines(diff) {
		if path, ok := strings.CutPrefix(line, "+++ b/"); ok {
			f = file{path: strings.TrimSpace(path)}
		} else if line[0] == ' ' || line[0] == '+' {
			for _, found := range matchPatterns(f.proseOf(strings.TrimSpace(line[1:]))) {
				if finding := fmt.Sprintf("%s:%d: %s", f.path, f.line, found); line[0] == '+' && !allowed.MatchString(finding) {
					findings = append(findings, finding)
				}
			}
		}
	}
	return findings
}

type file struct {
	path    string
	line    int
	block   bool // whether the line is in a code block of a page
	comment bool // whether the previous line is a comment
}

var (
	generated = regexp.MustCompile(`^(gen/|docs/(contract|errors|command-line)\.md|.*testdata/)`)
	pages     = regexp.MustCompile(`(\.md|help\.txt)$`)
	programs  = regexp.MustCompile(`\.(go|proto|java|ts|py|rs)$`)
	code      = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)")
	comment   = regexp.MustCompile(`(^|\s)(?://+|/?\*+|#) ([^*/].*)$`)
	message   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// proseOf returns the part of the next line that people read: the text outside code in a page, or a comment or message in a
// program. It puts "¶" before the beginning of a comment.
func (f *file) proseOf(line string) string {
	f.line++
	page := pages.MatchString(f.path)
	fence := page && strings.HasPrefix(line, "```")
	f.block = f.block != fence
	switch {
	case page && !f.block && !fence && !generated.MatchString(f.path):
		return code.ReplaceAllString(line, "")
	case programs.MatchString(f.path) && !generated.MatchString(f.path):
		return f.programProse(line)
	}
	return ""
}

func (f *file) programProse(line string) string {
	found, inComment := comment.FindStringSubmatch(line), f.comment
	f.comment = found != nil
	switch {
	case found == nil && strings.HasSuffix(f.path, "_test.go"):
		return ""
	case found == nil:
		return strings.Join(message.FindAllString(line, -1), " ")
	case found[1] == "" && inComment:
		return found[2]
	}
	return "¶" + found[2]
}

// matchPatterns returns a message for each pattern that a line matches.
func matchPatterns(line string) (found []string) {
	for _, one := range patterns {
		if match := one.find.FindString(line); match != "" && !one.unless.MatchString(match) {
			found = append(found, fmt.Sprintf("%q: %s", strings.Trim(match, "¶ "), one.instead))
		}
	}
	return found
}
