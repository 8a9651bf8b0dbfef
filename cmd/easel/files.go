package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
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

// follow reads them until stop is called.
func (f settingFiles) follow(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ticks := time.NewTicker(reload.Interval)
	var work sync.WaitGroup
	work.Go(func() {
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
	})
	return func() {
		signal.Stop(hangups)
		ticks.Stop()
		cancel()
		work.Wait()
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
