package auth

import "testing"

func TestATokenIsNewAndLetsItsCallerIn(t *testing.T) {
	token := NewToken()
	if token == NewToken() || len(token) != len("easel_")+43 {
		t.Errorf("the token is %q", token)
	}
	list := mustParse(t, "callers: [{name: a, tokens: ["+Hash(token)+"]}]")
	if got := nameOf(byToken(list, token)); got != "a" {
		t.Errorf("the token belongs to %q", got)
	}
}
