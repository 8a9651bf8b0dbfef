package catalog

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPIKeyRejectionIsRememberedForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{upstream: requester{rejections: newRejections()}}
		rejection := &Error{Kind: KindCredentialRejected}
		c.upstream.rejections.recordOutcome(Credential{Tenant: "tenant"}, rejection)
		time.Sleep(rejectedFor - time.Second)
		if err := c.Rejection("tenant"); !errors.Is(err, rejection) {
			t.Errorf("within %v, Rejection returned %v", rejectedFor, err)
		}
		time.Sleep(time.Second)
		if err := c.Rejection("tenant"); err != nil {
			t.Errorf("after %v, Rejection returned %v", rejectedFor, err)
		}
	})
}

func TestSharedAPIKeyRejectionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{upstream: requester{rejections: newRejections()}}
		shared := Shared(nil)
		for _, step := range []struct {
			cred Credential
			err  error
			wait time.Duration
			want bool
		}{
			{Credential{Tenant: "forwarded"}, &Error{Kind: KindCredentialRejected}, 0, false},
			{shared, &Error{Kind: KindUnavailable}, 0, false},
			{shared, &Error{Kind: KindCredentialRejected}, sharedRejectedFor - time.Second, true},
			{shared, &Error{Kind: KindUnavailable}, time.Second, false},
			{shared, &Error{Kind: KindCredentialRejected}, 0, true},
			{shared, &Error{Kind: KindUnavailable}, 0, true},
			{shared, errors.New("the caller disconnected"), 0, true},
			{shared, nil, 0, false},
			{shared, &Error{Kind: KindCredentialRejected}, 0, true},
		} {
			c.upstream.rejections.recordOutcome(step.cred, step.err)
			time.Sleep(step.wait)
			if c.Rejected() != step.want {
				t.Errorf("%v after the call result %v, Rejected returned %v", step.wait, step.err, !step.want)
			}
		}
	})
}

func TestNumberOfRememberedRejectionsIsLimited(t *testing.T) {
	r := newRejections()
	r.recordOutcome(Credential{Tenant: "shared", Shared: true}, &Error{Kind: KindCredentialRejected})
	for n := range rejectedLimit + 10 {
		r.recordOutcome(Credential{Tenant: Tenant(fmt.Sprint(n))}, &Error{Kind: KindCredentialRejected})
	}
	if len(r.all) > rejectedLimit || !r.find("shared").shared || r.find(Tenant(fmt.Sprint(rejectedLimit+9))).err == nil {
		t.Errorf("%d rejections are remembered", len(r.all))
	}
}
