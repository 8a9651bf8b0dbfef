package catalog

import (
	"errors"
	"fmt"
	"testing"
)

func TestAnAPIKeyIsAcceptedFromFirstAnswerToRejection(t *testing.T) { // A3
	a := newAccepted()
	has := func(t Tenant) bool { return !a.of(t).at.IsZero() }
	for n, step := range []struct {
		err  error
		want bool
	}{
		{&Error{Kind: KindUnavailable}, false},
		{&Error{Kind: KindNotFound}, false}, // whoever answers so may have looked at no key
		{nil, true},
		{nil, true},
		{&Error{Kind: KindUnavailable}, true},
		{errors.New("the caller went away"), true},
		{&Error{Kind: KindCredentialRejected}, false},
		{&Error{Kind: KindCredentialRejected}, false},
		{nil, true},
	} {
		a.record(Credential{Tenant: "tenant"}, step.err)
		if got := has("tenant"); got != step.want || has("other") {
			t.Errorf("after step %d, %v, it is accepted: %v", n+1, step.err, got)
		}
	}
}

func TestAcceptedAPIKeysAreRememberedUpToALimit(t *testing.T) {
	a := newAccepted()
	for n := range acceptedLimit + 10 {
		a.record(Credential{Tenant: Tenant(fmt.Sprint(n))}, nil)
	}
	if len(a.tenants) != acceptedLimit || a.of(Tenant(fmt.Sprint(acceptedLimit+9))).at.IsZero() {
		t.Errorf("%d are remembered", len(a.tenants))
	}
}
