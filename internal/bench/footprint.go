package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// learnCPU measures the CPU for one state of one render, learned by a list of a hundred or by
// a read of each.
func learnCPU(way string) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		s, err := b.scene(ctx, setting{bare: true})
		if err != nil {
			return 0, err
		}
		defer s.stop()
		if err := s.control(ctx, "/renders?prefix=r&n=%d", listPage); err != nil {
			return 0, err
		}
		self, err := os.Executable()
		if err != nil {
			return 0, err
		}
		out, err := exec.CommandContext(ctx, self, "learn", s.upstream(), way, b.lasting(5*time.Second).String()).Output()
		if err != nil {
			return 0, err
		}
		used, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			return 0, err
		}
		counted, err := s.counts(ctx)
		if err != nil {
			return 0, err
		}
		learned := float64(counted.Gets + listPage*counted.Lists)
		if way == "list" && counted.Lists == 0 || way == "alone" && counted.Gets < listPage {
			return 0, fmt.Errorf("learned by %+v", counted)
		}
		return used / 1000 / learned, nil
	}
}

// coldStart measures the time from the start of the program until a call is answered.
func coldStart(ctx context.Context, b *bench) (float64, error) {
	s, err := b.scene(ctx, setting{})
	if err != nil {
		return 0, err
	}
	defer s.stop()
	begin := time.Now()
	conn, err := grpc.NewClient(s.server.addrs["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	return float64((s.server.took + time.Since(begin)).Microseconds()) / 1000, err
}

// idleMemory measures the resident memory of a server that was just started.
func idleMemory(ctx context.Context, b *bench) (float64, error) {
	s, err := b.scene(ctx, setting{tracing: "always"})
	if err != nil {
		return 0, err
	}
	defer s.stop()
	time.Sleep(time.Second)
	bytes, err := s.server.memory("VmRSS")
	return bytes / 1e6, err
}

func fileSize(_ context.Context, b *bench) (float64, error) {
	info, err := os.Stat(b.easel)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / 1e6, nil
}
