package main

import (
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestADeleteThatAllowsAMissingRenderDoesNotClaimThatItWasThere(t *testing.T) {
	var asked *easelv1.DeleteGenerationRequest
	dial := (&scripted{remove: func(r *easelv1.DeleteGenerationRequest) error { asked = r; return nil }}).serve(t)
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{nil, "deleted gen_1\n"},
		{[]string{"--allow-missing"}, "gen_1 is not in the catalog\n"},
		{[]string{"--allow-missing", "-q"}, "gen_1\n"},
		{[]string{"--allow-missing", "-o", "json"}, "{}\n"},
	} {
		got := easel(t.Context(), dial, append([]string{"delete", "gen_1"}, test.flags...)...)
		if got.exit != exitOK || got.stdout != test.want || got.stderr != "" || asked.AllowMissing != (test.flags != nil) {
			t.Errorf("%q: exit %d after %v, printed\n%s%s", test.flags, got.exit, asked, got.stdout, got.stderr)
		}
	}
}
