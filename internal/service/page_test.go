package service

import (
	"slices"
	"testing"
)

func TestAPageGoesOnAfterARecordThatIsNoLongerChosen(t *testing.T) {
	all, gone := []string{"a", "b", "c", "d", "e"}, map[string]bool{"b": true}
	cut := func(token string) ([]string, string, error) {
		return page(all, func(s string) bool { return !gone[s] }, func(s string) string { return s }, "letters", 2, token)
	}
	first, token, err := cut("")
	if err != nil || !slices.Equal(first, []string{"a", "c"}) {
		t.Fatalf("the first page is %q, %v", first, err)
	}
	gone["c"] = true
	second, token, err := cut(token)
	if err != nil || !slices.Equal(second, []string{"d", "e"}) || token != "" {
		t.Errorf("the second page is %q and the token %q, %v", second, token, err)
	}
	if _, _, err := cut(writeToken("digits", "a")); err == nil {
		t.Error("the token of another list is taken")
	}
}
