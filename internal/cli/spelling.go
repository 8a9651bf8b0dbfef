package cli

// closest is the word of a list that somebody may have meant, or nothing where none is
// like it: more than a third of it would have to change.
func closest(word string, list []string) string {
	best, least := "", 0
	for _, candidate := range list {
		d := editDistance([]rune(word), []rune(candidate))
		if d <= max(len(candidate)/3, 1) && (best == "" || d < least) {
			best, least = candidate, d
		}
	}
	return best
}

// editDistance counts the letters to insert, drop, change or swap with their neighbour to
// make one word of another.
func editDistance(a, b []rune) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
