package watch

import (
	"context"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/limiter"
)

// Call makes a call that passes the gate beside the polls, and ends with err.
func (h *Hub) Call(ctx context.Context, cred catalog.Credential, err error) {
	turn, late := h.cfg.Gates.Of(string(cred.Tenant)).Enter(ctx, limiter.Request{Class: limiter.Read})
	if late != nil {
		return
	}
	turn.End(catalog.EndOf(err))
	h.Called(cred, err)
}

// GateOf is the gate of a credential.
func (h *Hub) GateOf(cred catalog.Credential) *limiter.Limiter {
	return h.cfg.Gates.Of(string(cred.Tenant))
}
