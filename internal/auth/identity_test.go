package auth

import "testing"

func TestACallWithoutAnIdentityHasNoRights(t *testing.T) {
	i := Of(t.Context())
	if i.Owner == "" || i.SeesAll() || i.SeesAccount || i.APIKey.APIKey().Reveal() != "" {
		t.Errorf("the call has the owner %q; sees all: %v, sees the account: %v", i.Owner, i.SeesAll(), i.SeesAccount)
	}
}
