package cli

import "strings"

// closest is the word of a list that somebody may have meant, or nothing where none has nearly the same letters: for a
// third of its length they may differ.
func closest(word string, list []string) string {
	best, least := "", 0
	for _, candidate := range list {
		more, differ := map[rune]int{}, 0 // letters of the word than of the candidate
		for _, letter := range strings.ToLower(word) {
			more[letter]++
		}
		for _, letter := range strings.ToLower(candidate) {
			more[letter]--
		}
		for _, n := range more {
			differ += max(n, -n)
		}
		if differ <= max(len(candidate)/3, 1) && (best == "" || differ < least) {
			best, least = candidate, differ
		}
	}
	return best
}
