package main

import (
	"slices"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
)

func TestDeliveryCountersOfTeamStartAtZero(t *testing.T) {
	var counted []string
	notifier := &notifier{count: func(team, outcome string, events int64) {
		if events == 0 {
			counted = append(counted, team+" "+outcome)
		}
	}}
	list, err := auth.Parse([]byte("teams: {studio: {events: {url: \"https://studio.example/\", secret_file: /secret}}, print: {}}\ncallers: [{name: x}]\n" +
		"total: {daily_cents: 100, thresholds: [90, 50], events: {url: \"https://ops.example/\", secret_file: /secret}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	notifier.replaceTeams(list)
	if want := []string{"studio sent", "studio failed", "studio given_up", "* sent", "* failed", "* given_up"}; !slices.Equal(counted, want) {
		t.Errorf("the counted deliveries are %q", counted)
	}
	if total := notifier.teams.Known()[ledger.AllOwners]; !slices.Equal(total.Thresholds, []int64{50, 90}) || *total.Limits.DailyCents != 100 || !total.Subscribed {
		t.Errorf("the notification settings of the total budget are %+v", total)
	}
	if team := notifier.teams.Known()["studio"]; team.Thresholds != nil {
		t.Errorf("the team without thresholds has the thresholds %v", team.Thresholds)
	}
}
