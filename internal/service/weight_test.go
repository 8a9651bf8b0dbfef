package service

import (
	"fmt"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
)

func TestTheWeightOfATeamIsThatOfItsRequests(t *testing.T) {
	held := catalog.Held(func() catalog.Secret { return catalog.NewSecret("any") })
	s := &Service{cfg: Config{Held: &held, AllowAnonymous: true}}
	list, err := auth.Parse(fmt.Appendf(nil, "teams: {studio: {weight: 2.5}, print: {}}\ncallers: [{name: a, team: studio, tokens: [%s]}, {name: b, team: print, tokens: [%s]}, {name: c, tokens: [%s]}]",
		auth.Hash("a"), auth.Hash("b"), auth.Hash("c")))
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]float64{"a": 2.5, "b": 1, "c": 1, "": 1} {
		if c, err := s.find(list, token, nil); err != nil || c.credential.Weight != want {
			t.Errorf("%q has the weight %v, %v", token, c.credential.Weight, err)
		}
	}
}
