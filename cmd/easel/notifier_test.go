package main

import (
	"maps"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/service"
)

func TestTheCountsOfATeamBeginAtZero(t *testing.T) {
	notifier := newNotifier(service.EventData{Catalog: "https://catalog.example"})
	for n, text := range []string{
		"teams: {studio: {events: {url: \"https://studio.example/\", secret_file: /secret}}, print: {}}\ncallers: []\n",
		"teams: {studio: {}, print: {}}\ncallers: []\n", // what was pending may still be given up
	} {
		list, err := auth.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		notifier.take(list)
		all := notifier.outcomes()
		if len(all) != 1 || !maps.Equal(all["studio"], map[string]int64{"sent": 0, "failed": 0, "given_up": 0}) {
			t.Errorf("after file %d the counts are %v", n, all)
		}
	}
	notifier.count("studio", "given_up", 3)
	if got := notifier.outcomes()["studio"]["given_up"]; got != 3 {
		t.Errorf("three were given up, and %d are counted", got)
	}
}
