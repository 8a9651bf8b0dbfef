package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/reload"
)

// settingFiles contains the parsed value of each file to which a setting refers, keyed by setting. The files are checked
// for changes periodically, and immediately on SIGHUP.
type settingFiles map[string]interface {
	Reload()
	Problem() error
}

// follow reloads changed files until ctx is done.
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
		for _, file := range f {
			file.Reload()
		}
	}
}

// settingProblems returns the errors from the latest reload of the files, keyed by setting. The entry for [admin.Issuers]
// contains the errors from reading the issuers' keys. A setting without errors has an empty entry.
func (f *facade) settingProblems() map[string][]error {
	all := map[string][]error{}
	for setting, file := range f.files {
		all[setting] = nil
		if err := file.Problem(); err != nil {
			all[setting] = []error{err}
		}
	}
	if f.known == nil {
		return all
	}
	all[admin.Issuers] = nil
	problems := f.known.KeyProblems()
	for _, issuer := range slices.Sorted(maps.Keys(problems)) {
		all[admin.Issuers] = append(all[admin.Issuers], fmt.Errorf("%s: %w", issuer, problems[issuer]))
	}
	return all
}
