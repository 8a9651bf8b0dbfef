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

// settingFile is the file of a setting. It is reloaded when it changes.
type settingFile struct {
	setting string
	value   interface {
		Reload()
		Problem() error
	}
}

// settingFiles are the files of the settings. They are checked for changes periodically, and immediately on SIGHUP.
type settingFiles []settingFile

// follow reloads the files until ctx is done.
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

// problems returns the errors of the files that can't be read or applied.
func (f settingFiles) problems() (all []string) {
	for _, one := range f {
		if err := one.value.Problem(); err != nil {
			all = append(all, err.Error())
		}
	}
	return all
}

// broken returns the number of files of each setting that can't be read or applied, and of issuers without readable keys.
func (f settingFiles) broken(known *auth.Callers) map[string]int {
	counts := map[string]int{}
	for _, one := range f {
		counts[one.setting] = 0
		if one.value.Problem() != nil {
			counts[one.setting] = 1
		}
	}
	if known != nil {
		counts["issuers"] = len(known.KeyProblems())
	}
	return counts
}
