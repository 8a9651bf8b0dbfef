package service

import (
	"slices"
	"strings"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// pageOf returns the model IDs on one page of a list, and the token of the next page. The list contains the models in
// letters for which isChosen(id) is true. All models have the same description.
func pageOf(letters []string, isChosen func(string) bool, description string, size int32, token string) (ids []string, next string, err error) {
	models, next, err := page(letters, isChosen, func(s string) string { return s }, func(s string) *easelv1.Model {
		return &easelv1.Model{ModelId: s, Description: description}
	}, "letters", size, token)
	for _, m := range models {
		ids = append(ids, m.GetModelId())
	}
	return ids, next, err
}

func TestPageTokenWorksAfterItemIsRemoved(t *testing.T) {
	all, removed := []string{"a", "b", "c", "d", "e"}, map[string]bool{"b": true}
	cut := func(token string) ([]string, string, error) {
		return pageOf(all, func(s string) bool { return !removed[s] }, "", 2, token)
	}
	first, token, err := cut("")
	if err != nil || !slices.Equal(first, []string{"a", "c"}) {
		t.Fatalf("the first page is %q, %v", first, err)
	}
	removed["c"] = true
	second, token, err := cut(token)
	if err != nil || !slices.Equal(second, []string{"d", "e"}) || token != "" {
		t.Errorf("the second page is %q and the token %q, %v", second, token, err)
	}
	if _, _, err := cut(writeToken("digits", "a")); err == nil {
		t.Error("the token of another list is accepted")
	}
}

func TestPageEndsBeforeResponseBecomesTooLarge(t *testing.T) {
	all, token := []string{"a", "b", "c", "d", "e"}, ""
	for _, want := range [][]string{{"a", "b"}, {"c", "d"}, {"e"}} {
		got, next, err := pageOf(all, matchAll, strings.Repeat("x", 1_500_000), 100, token)
		if err != nil || !slices.Equal(got, want) || (next == "") != slices.Contains(got, "e") {
			t.Fatalf("the page after %q is %q and the token %q: %v", token, got, next, err)
		}
		token = next
	}
	if got, _, err := pageOf(all, matchAll, strings.Repeat("x", 3_900_000), 100, ""); err != nil || len(got) != 1 {
		t.Errorf("a page of large models has %q, want one: %v", got, err)
	}
}
