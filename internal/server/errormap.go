package server

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/easel-grpc/easel/internal/service"
)

// statusOf is the status that an error is told to a caller with. What the libraries
// below refuse by themselves has no reason yet: it gets that of its code.
func statusOf(err error) *status.Status {
	st := service.Status(err)
	if st.Code() == codes.OK || reasonOf(st) != "" {
		return st
	}
	return withReason(st, strings.ToUpper(st.Code().String()))
}
