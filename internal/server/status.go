package server

import (
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// overload refuses what exceeds a limit for all callers together.
func overload(text string, after time.Duration) error {
	return service.Fail(easelv1.ErrorReason_OVERLOADED, text+": try again a little later", retryInfo(after))
}

func retryInfo(after time.Duration) protoadapt.MessageV1 {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(after)}
}

// refusals count refused calls, so that callers who are refused together do not retry together.
type refusals struct{ count atomic.Uint32 }

// delay is when the next refused caller should retry: after 1 s to 2 s, and far from the delays just
// before.
func (r *refusals) delay() time.Duration {
	const golden = 0x9E3779B9 // 2^32 over the golden ratio
	return time.Second + time.Duration(r.count.Add(1)*golden)*time.Second>>32
}
