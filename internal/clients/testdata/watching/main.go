// Command watching prints each state of every render and each balance, until neither can be watched any more.
package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	easel "github.com/easel-grpc/easel/clients/go"
)

func main() {
	ctx := context.Background()
	client, err := easel.New(ctx, easel.WithHeartbeatInterval(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() {
		for render, err := range client.WatchMany(ctx, nil) {
			if err != nil {
				fmt.Println("renders:", easel.ReasonOf(err))
				return
			}
			fmt.Println("render:", render.GenerationID, render.State, render.Etag)
		}
	})
	both.Go(func() {
		for account, err := range client.WatchAccount(ctx) {
			if err != nil {
				fmt.Println("account:", easel.ReasonOf(err))
				return
			}
			fmt.Println("balance:", *account.BalanceCents)
		}
	})
	both.Wait()
}
