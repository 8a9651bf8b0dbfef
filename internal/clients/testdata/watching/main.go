// Command watching prints each state of every render and each balance, until neither can be watched any more.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func main() {
	client, err := easel.Dial(os.Getenv("EASEL_ADDR"), os.Getenv("EASEL_API_KEY"), insecure.NewCredentials())
	if err != nil {
		log.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() {
		for render, err := range client.WatchMany(context.Background(), &easelv1.WatchGenerationsRequest{HeartbeatInterval: durationpb.New(2 * time.Second)}) {
			if err != nil {
				fmt.Println("renders:", easel.Reason(err))
				return
			}
			fmt.Println("render:", render.GenerationId, render.State, render.Etag)
		}
	})
	both.Go(func() {
		for account, err := range client.WatchAccount(context.Background(), &easelv1.WatchAccountRequest{HeartbeatInterval: durationpb.New(2 * time.Second)}) {
			if err != nil {
				fmt.Println("account:", easel.Reason(err))
				return
			}
			fmt.Println("balance:", account.GetBalanceCents())
		}
	})
	both.Wait()
}
