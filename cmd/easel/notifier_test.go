package main

import (
	"slices"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
)

func TestCountsOfATeamStartAtZero(t *testing.T) {
	var counted []string
	notifier := &notifier{count: func(team, outcome string, events int64) {
		if events == 0 {
			counted = append(counted, team+" "+outcome)
		}
	}}
	list, err := auth.Parse([]byte("teams: {studio: {events: {url: \"https://studio.example/\", secret_file: /secret}}, print: {}}\ncallers: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	notifier.take(list)
	if want := []string{"studio sent", "studio failed", "studio given_up"}; !slices.Equal(counted, want) {
		t.Errorf("counted are %q", counted)
	}
}
