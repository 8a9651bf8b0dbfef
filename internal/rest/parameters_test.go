package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

func TestUnknownQueryParameterIsRejectedByName(t *testing.T) {
	s := serve(t, servertest.NewStudio()) // every request must be rejected before it reaches the service
	for _, test := range []struct{ method, path, field, takes string }{
		{"GET", "/v1/generations/g?max_stalness=0s", "max_stalness", "maxStaleness"},
		{"GET", "/v1/generations/g?maxStaleness=0s&Until=x", "Until", "maxStaleness"},
		{"GET", "/v1/generations/g?maxStaleness.seconds=5", "maxStaleness.seconds", "maxStaleness"},
		{"GET", "/v1/generations/g?generationId=other", "generationId", "maxStaleness"},
		{"GET", "/v1/generations/g?", "", ""},
		{"GET", "/v1/generations/g?=1", "", "maxStaleness"},
		{"GET", "/v1/generations?size=5", "size", "filter.labels[name], filter.modelId, filter.owner, filter.states, pageSize, pageToken"},
		{"GET", "/v1/generations?filter=5", "filter", "filter.labels[name]"},
		{"GET", "/v1/generations?filter.labels=5", "filter.labels", "filter.labels[name]"},
		{"GET", "/v1/generations?filter.model_id[a]=5", "filter.model_id[a]", "filter.modelId"},
		{"GET", "/v1/usage?startTime.seconds=5", "startTime.seconds", "endTime, groupBy, labelName, pageSize, pageToken, startTime"},
		{"GET", "/v1/generations?pageSize[a]=5", "pageSize[a]", "pageSize, pageToken"},
		{"GET", "/v1/generations?pageSize=5;pageToken=x", "", "semicolon"},
		{"GET", "/v1/generations/g:wait?time=5s", "time", "timeout, until"},
		{"GET", "/v1/generations/g:watch?heartbeat=5s", "heartbeat", "heartbeatInterval, includeContent, knownEtag, until"},
		{"GET", "/v1/generations:watch?ids=a", "ids", "filter.labels[name], filter.modelId, filter.owner, filter.states, generationIds, heartbeatInterval, knownEtags[name], until"},
		{"GET", "/v1/generations/g/content?offset=5", "offset", "etag, readLimit, readOffset, waitTimeout"},
		{"DELETE", "/v1/generations/g?forced=true", "forced", "allowMissing, force"},
		{"GET", "/v1/models?page=5", "page", "pageSize, pageToken"},
		{"GET", "/v1/models/house/model?page=5", "page", "has no query parameters"},
		{"GET", "/v1/account?id=5", "id", "has no query parameters"},
		{"POST", "/v1/generations?maxCostCents=5", "maxCostCents", "has no query parameters"},
		{"POST", "/v1/generations:quote?modelId=m", "modelId", "has no query parameters"},
	} {
		body := ""
		if test.method == http.MethodPost {
			body = "{}"
		}
		answer, text := servertest.Do(t, s.HTTP, servertest.Request(t, test.method, test.path, body))
		if test.takes == "" {
			if answer.StatusCode != http.StatusOK {
				t.Errorf("%s returned %s: %s", test.path, answer.Status, text)
			}
			continue
		}
		st := servertest.WantError(t, servertest.RESTStatus(t, text).Err(), codes.InvalidArgument, "INVALID_REQUEST")
		faults := service.Detail[*errdetails.BadRequest](st).GetFieldViolations()
		if answer.StatusCode != http.StatusBadRequest || len(faults) != 1 || faults[0].GetField() != test.field || !strings.Contains(faults[0].GetDescription(), test.takes) {
			t.Errorf("%s returned %s with %v", test.path, answer.Status, faults)
		}
	}
}

func TestQueryParameterAcceptsJSONAndProtoNames(t *testing.T) {
	studio := servertest.NewStudio()
	var asked *easelv1.GetGenerationRequest
	studio.Get = func(_ context.Context, req *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
		asked = req
		return &easelv1.GetGenerationResponse{}, nil
	}
	var offset int64
	studio.OpenContent = func(_ context.Context, req *easelv1.DownloadGenerationRequest) (*service.Content, error) {
		offset = req.GetReadOffset()
		return nil, errors.New("that is all")
	}
	s := serve(t, studio)
	for _, spelling := range []string{"maxStaleness", "max_staleness"} {
		servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g?"+spelling+"=5s", ""))
		if got := asked.GetMaxStaleness().AsDuration(); got != 5*time.Second {
			t.Errorf("%s: got %v, want 5s", spelling, got)
		}
	}
	var model string
	studio.List = func(_ context.Context, req *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
		model = req.GetFilter().GetModelId()
		return &easelv1.ListGenerationsResponse{}, nil
	}
	for _, spelling := range []string{"filter.modelId", "filter.model_id"} {
		servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations?"+spelling+"=vendor/"+spelling, ""))
		if model != "vendor/"+spelling {
			t.Errorf("%s: got model ID %q", spelling, model)
		}
	}
	for n, path := range []string{"GET content?readOffset=1", "HEAD content?read_offset=2"} {
		method, rest, _ := strings.Cut(path, " ")
		servertest.Do(t, s.HTTP, servertest.Request(t, method, "/v1/generations/g/"+rest, ""))
		if offset != int64(n)+1 {
			t.Errorf("%s: got read offset %d", path, offset)
		}
	}
	if answer, text := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/?from=a-link", "")); answer.StatusCode != http.StatusOK {
		t.Errorf("a page returned %s: %s", answer.Status, text)
	}
}

func TestQueryParametersOfEveryRouteAreKnown(t *testing.T) {
	known := newParameters()
	for _, route := range routes() {
		names, ok := known[bareTemplate(route)]
		if !ok {
			t.Errorf("the parameters of %s are unknown", route)
		}
		for inJSON, name := range names {
			if strings.Contains(route, "{"+name) {
				t.Errorf("%s is a path parameter of %s", inJSON, route)
			}
		}
	}
	if len(known) != len(routes())+1 { // plus one, because routes() omits the HEAD method of downloads
		t.Errorf("the parameters of %d routes are known, but there are %d routes", len(known), len(routes()))
	}
}

// unknownQuery returns a query with many unknown parameters. Its size is just below the limit for headers.
func unknownQuery() string {
	var query strings.Builder
	for n := 0; query.Len() < 30_000; n++ {
		fmt.Fprintf(&query, "%x&", n)
	}
	return query.String()
}

func TestNumberOfReportedUnknownParametersIsLimited(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	_, text := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations?"+unknownQuery(), ""))
	st := servertest.WantError(t, servertest.RESTStatus(t, text).Err(), codes.InvalidArgument, "INVALID_REQUEST")
	faults := service.Detail[*errdetails.BadRequest](st).GetFieldViolations()
	if len(faults) != service.MostViolations+1 || faults[len(faults)-1].GetDescription() != "there are more violations" {
		t.Errorf("the violations are %v", faults)
	}
}
