package auth

import "testing"

func TestACallWithoutAnIdentityHasNoRights(t *testing.T) {
	i := Of(t.Context())
	if i.Owner == "" || i.SeesAll() || i.SeesAccount || i.APIKey.APIKey().Reveal() != "" {
		t.Errorf("its owner is %q, as that of anonymous callers; it sees all: %v, the account: %v", i.Owner, i.SeesAll(), i.SeesAccount)
	}
}
