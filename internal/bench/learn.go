package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// unlisted is a catalog whose list does not help, so that each render is read by itself.
type unlisted struct{ watch.Upstream }

func (unlisted) List(context.Context, catalog.Credential, *catalog.Recall) ([]catalog.Listed, error) {
	return nil, errors.New("there is no list")
}

// runLearn polls a hundred renders as the hub does, by the list or one by one, and tells on
// standard output what it has used: nanoseconds of CPU.
func runLearn(args []string) error {
	if len(args) != 3 {
		return errors.New("learn wants an address, list or alone, and a time")
	}
	lasting, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	client, err := catalog.New(catalog.Config{BaseURL: args[0]})
	if err != nil {
		return err
	}
	var upstream watch.Upstream = client.Once()
	if args[1] == "alone" {
		upstream = unlisted{upstream}
	}
	hub, err := watch.New(watch.Config{Upstream: upstream, MinInterval: 10 * time.Millisecond, MaxInterval: 10 * time.Millisecond, Rate: 1e5})
	if err != nil {
		return err
	}
	defer hub.Close()
	ids := make([]string, listPage)
	for i := range ids {
		ids[i] = "r" + strconv.Itoa(i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lasting)
	defer cancel()
	for _, err := range hub.Watch(ctx, watch.Request{Credential: catalog.Forwarded(catalog.NewSecret(benchKey)), IDs: ids}) {
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	used, err := cpuUsed()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, used)
	return err
}
