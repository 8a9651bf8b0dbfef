package rest

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

func TestADownloadOrAWatchThatCanNotBeginIsAStatus(t *testing.T) {
	studio := servertest.NewStudio()
	studio.OpenContent = func(context.Context, *easelv1.DownloadGenerationRequest) (*service.Content, error) {
		return nil, errors.New("what only the log may know")
	}
	s := serve(t, studio)
	for _, test := range []struct {
		name, path string
		headers    []string
		http       int
		code       codes.Code
		reason     string
	}{
		{"a download in no time", "/v1/generations/g/content", []string{"Grpc-Timeout: soon"}, 400, codes.InvalidArgument, "INVALID_REQUEST"},
		{"a download from nowhere", "/v1/generations/g/content?readOffset=here", nil, 400, codes.InvalidArgument, "INVALID_REQUEST"},
		{"a download of a broken query", "/v1/generations/g/content?etag=%zz", nil, 400, codes.InvalidArgument, "INVALID_REQUEST"},
		{"a download that breaks", "/v1/generations/g/content", nil, 500, codes.Internal, "INTERNAL"},
		{"a watch in no time", "/v1/generations/g:watch", []string{"Grpc-Timeout: soon"}, 400, codes.InvalidArgument, "INVALID_REQUEST"},
		{"a watch until nothing known", "/v1/generations/g:watch?until=LATER", nil, 400, codes.InvalidArgument, "INVALID_REQUEST"},
		{"a watch of many until nothing known", "/v1/generations:watch?until=LATER", nil, 400, codes.InvalidArgument, "INVALID_REQUEST"},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, test.path, "", test.headers...))
			if answer.StatusCode != test.http {
				t.Errorf("answered %s, want %d: %s", answer.Status, test.http, body)
			}
			servertest.WantError(t, servertest.RESTStatus(t, body).Err(), test.code, test.reason)
		})
	}
}
