package cluster

import (
	"context"
	"errors"
	"time"
)

var (
	errConflict = errors.New("somebody else was first") // a compare-and-swap that failed
	errNotFound = errors.New("there is no such value")
)

// network connects replicas. A published message may be lost, repeated, late and out of order.
type network interface {
	up() bool // whether it is worth trying
	publish(subject string, data []byte)
	// subscribe calls handle from one goroutine, until stop is called. handle must not block.
	subscribe(subject string, handle func(data []byte)) (stop func(), err error)
	leases() table // values that vanish leaseTTL after they were written
	states() table // values that vanish statesTTL after they were written
	close()
}

// table holds values that change by compare-and-swap alone.
type table interface {
	// put writes a value if its revision is still the given one; 0 stands for no value.
	put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	get(ctx context.Context, key string) (value, error)
	remove(ctx context.Context, key string, revision uint64) error
}

// value is a value of a table.
type value struct {
	data     []byte
	revision uint64
	epoch    int64     // when the table was made, by the server's clock
	written  time.Time // by the server's clock
}

const (
	leaseTTL  = 5 * time.Second
	statesTTL = 2 * time.Minute
)
