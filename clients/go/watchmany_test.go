//go:build go1.25

package easel_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func manyUpdate(id, etag string, state easelv1.State) *easelv1.WatchGenerationsResponse {
	return &easelv1.WatchGenerationsResponse{Event: &easelv1.WatchGenerationsResponse_Update{Update: &easelv1.GenerationUpdate{
		Generation: &easelv1.Generation{GenerationId: id, State: state, Etag: etag},
	}}}
}

func TestWatchManySendsKnownEtagsWhenItReconnects(t *testing.T) {
	const running, deleted = easelv1.State_STATE_RUNNING, easelv1.State_STATE_DELETED
	for _, tt := range []struct {
		name  string
		named []string
		want  string
	}{
		{"of all renders, but for deleted ones", nil, "[map[a:a0] map[a:a2 b:b1] map[a:a2 b:b1 c:c1]]"},
		{"of named renders", []string{"a", "b", "c", "d"}, "[map[a:a0] map[a:a2 b:b1 d:d1] map[a:a2 b:b1 c:c1 d:d1]]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var known []map[string]string
				then := func(end error, messages ...*easelv1.WatchGenerationsResponse) func(*easelv1.WatchGenerationsRequest, manyStream) error {
					return func(request *easelv1.WatchGenerationsRequest, stream manyStream) error {
						known = append(known, request.GetKnownEtags())
						return errors.Join(sendAll(stream, messages...), end)
					}
				}
				broken := status.Error(codes.Unavailable, "scripted")
				s := &script{many: []func(*easelv1.WatchGenerationsRequest, manyStream) error{
					then(broken, manyUpdate("a", "a1", running), manyUpdate("b", "b1", running), manyUpdate("a", "a2", running), manyUpdate("d", "d1", deleted)),
					then(broken, manyUpdate("c", "c1", running)),
					then(status.Error(codes.NotFound, "scripted")),
				}}
				before := map[string]string{"a": "a0"}
				var etags []string
				for render, err := range serveScript(t, s).WatchMany(t.Context(), tt.named, easel.KnownEtags(before)) {
					if err == nil {
						etags = append(etags, render.Etag)
					}
				}
				if got := fmt.Sprint(known); got != tt.want {
					t.Errorf("the requests have the known etags %s, want %s", got, tt.want)
				}
				if got := fmt.Sprint(etags); got != "[a1 b1 a2 d1 c1]" {
					t.Errorf("the watch yielded the etags %s, want [a1 b1 a2 d1 c1]", got)
				}
				if len(before) != 1 || before["a"] != "a0" {
					t.Errorf("the watch changed the caller's etags to %v", before)
				}
			})
		})
	}
}

func TestWatchManySendsUpToAThousandEtags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known []string
		s := &script{many: []func(*easelv1.WatchGenerationsRequest, manyStream) error{
			func(_ *easelv1.WatchGenerationsRequest, stream manyStream) error {
				for i := range 1100 {
					if err := sendAll(stream, manyUpdate(fmt.Sprintf("gen_%04d", i), "e1", easelv1.State_STATE_RUNNING)); err != nil {
						return err
					}
				}
				return errors.Join(sendAll(stream, manyUpdate("gen_0100", "e2", easelv1.State_STATE_FAILED), manyUpdate("gen_1099", "e2", easelv1.State_STATE_SUCCEEDED), manyUpdate("gen_1100", "e1", easelv1.State_STATE_QUEUED)),
					status.Error(codes.Unavailable, "scripted"))
			},
			func(request *easelv1.WatchGenerationsRequest, _ manyStream) error {
				known = slices.Sorted(maps.Keys(request.GetKnownEtags()))
				return status.Error(codes.NotFound, "scripted")
			},
		}}
		for range serveScript(t, s).WatchMany(t.Context(), nil) {
		}
		if len(known) != 1000 || known[0] != "gen_0100" || known[1] != "gen_0101" || known[2] != "gen_0102" || known[998] != "gen_1098" || known[999] != "gen_1100" {
			t.Errorf("got %d known etags, from %s to %s; want 1000, from gen_0100 to gen_1098 and gen_1100", len(known), known[:3], known[len(known)-2:])
		}
	})
}

func TestWatchManyYieldsFinishedGenerationsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known []map[string]string
		then := func(end error, messages ...*easelv1.WatchGenerationsResponse) func(*easelv1.WatchGenerationsRequest, manyStream) error {
			return func(request *easelv1.WatchGenerationsRequest, stream manyStream) error {
				known = append(known, request.GetKnownEtags())
				return errors.Join(sendAll(stream, messages...), end)
			}
		}
		broken, end := status.Error(codes.Unavailable, "scripted"), status.Error(codes.NotFound, "scripted")
		failed, succeeded := manyUpdate("a", "a1", easelv1.State_STATE_FAILED), manyUpdate("b", "b1", easelv1.State_STATE_SUCCEEDED)
		s := &script{many: []func(*easelv1.WatchGenerationsRequest, manyStream) error{then(broken, failed, succeeded), then(broken, succeeded), then(end, succeeded)}}
		var etags []string
		for generation, err := range serveScript(t, s).WatchMany(t.Context(), nil) {
			if err == nil {
				etags = append(etags, generation.Etag)
			}
		}
		if got := fmt.Sprint(etags, known); got != "[a1 b1] [map[] map[a:a1] map[a:a1]]" {
			t.Errorf("the yielded etags and the known etags in the requests are %s, want [a1 b1] [map[] map[a:a1] map[a:a1]]", got)
		}
	})
}
