package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/reload"
)

// settingFile is what one setting names: it is read again when it changes.
type settingFile struct {
	setting string
	value   interface {
		Reload()
		Problem() error
	}
}

// settingFiles are the files of the settings. They are read again once in a while, whether anybody calls or not, and at
// once on SIGHUP.
type settingFiles []settingFile

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
			one.value.Reload()
		}
	}
}

// problems says which of them can't be read or taken over.
func (f settingFiles) problems() (all []string) {
	for _, one := range f {
		if err := one.value.Problem(); err != nil {
			all = append(all, err.Error())
		}
	}
	return all
}

// broken counts, by setting, those that can't be read or taken over, and the issuers whose keys can't be read.
func (f settingFiles) broken(known *auth.Callers) map[string]int {
	counts := map[string]int{}
	for _, one := range f {
		counts[one.setting] = 0
		if one.value.Problem() != nil {
			counts[one.setting] = 1
		}
	}
	if known != nil {
		counts["issuers"] = len(known.Issuers.Problems())
	}
	return counts
}
