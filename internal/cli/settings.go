package cli

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/easel-grpc/easel/internal/terminal"
)

// FaultList collects what is wrong, so that all of it is told at once.
type FaultList []string

func (l *FaultList) Add(text string) { *l = append(*l, terminal.OneLine(text)) }

func (l *FaultList) AddError(name string, err error) {
	if err != nil {
		l.Add(fmt.Sprintf("%s: %v", name, err))
	}
}

func (l *FaultList) Require(ok bool, text string) {
	if !ok {
		l.Add(text)
	}
}

// IsLoopback reports whether a host is this machine and nothing else. No host is every
// address.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}
