package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/easel-grpc/easel/internal/reload"
)

// file is one that is read again when it changes.
type file interface {
	Reload()
	Problem() error
}

// settingFiles are the files of the settings. They are read again once in a while, whether anybody calls or not, and at
// once on SIGHUP.
type settingFiles []file

// follow reads them until ctx ends.
func (f settingFiles) follow(ctx context.Context) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	ticks := time.NewTicker(reload.Interval)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-hangups:
		case <-ctx.Done():
			return
		}
		for _, one := range f {
			one.Reload()
		}
	}
}

// problems says which of them can't be read or taken over.
func (f settingFiles) problems() (all []string) {
	for _, one := range f {
		if err := one.Problem(); err != nil {
			all = append(all, err.Error())
		}
	}
	return all
}
