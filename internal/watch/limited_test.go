package watch

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/limiter"
)

// unlimited is an upstream without limiters.
type unlimited interface {
	Generation(context.Context, catalog.Credential, string) (catalog.Version, error)
	List(context.Context, catalog.Credential, time.Time) (*catalog.List, error)
	Account(context.Context, catalog.Credential) (catalog.Account, error)
}

// withLimiters returns an upstream that passes requests to another upstream. As with the catalog
// client, each request needs a permit.
func withLimiters(up unlimited) Upstream { return limited{up, limiter.NewSet()} }

type limited struct {
	up       unlimited
	limiters *limiter.Set
}

func (l limited) Limiter(t catalog.Tenant) *limiter.Limiter { return l.limiters.Of(string(t)) }

func (l limited) Generation(ctx context.Context, cred catalog.Credential, id string) (v catalog.Version, err error) {
	err = l.ask(ctx, cred, limiter.Poll, func() error { v, err = l.up.Generation(ctx, cred, id); return err })
	return v, err
}

func (l limited) List(ctx context.Context, cred catalog.Credential, since time.Time) (list *catalog.List, err error) {
	err = l.ask(ctx, cred, limiter.Poll, func() error { list, err = l.up.List(ctx, cred, since); return err })
	return list, err
}

func (l limited) Account(ctx context.Context, cred catalog.Credential) (a catalog.Account, err error) {
	err = l.ask(ctx, cred, limiter.Poll, func() error { a, err = l.up.Account(ctx, cred); return err })
	return a, err
}

func (l limited) ask(ctx context.Context, cred catalog.Credential, c limiter.Class, request func() error) error {
	permit, err := l.Limiter(cred.Tenant).Acquire(ctx, limiter.Request{Class: c})
	if err != nil {
		return &catalog.Error{Kind: catalog.KindRateLimited, Err: err}
	}
	if !catalog.IsWanted(ctx) {
		permit.Release(limiter.Result{Outcome: limiter.Unused})
		return &catalog.Error{Kind: catalog.KindBusy}
	}
	err = request()
	permit.Release(catalog.ResultOf(err))
	return err
}

// callCatalog waits for a permit, sends a request, and reports the result to the hub.
func (h *Hub) callCatalog(ctx context.Context, cred catalog.Credential, request func() error) {
	_ = h.cfg.Upstream.(limited).ask(ctx, cred, limiter.Read, func() error {
		err := request()
		h.Called(cred, err)
		return err
	})
}
