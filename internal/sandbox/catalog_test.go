package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestEveryRouteRejectsMissingWrongAndRevokedAPIKeys(t *testing.T) {
	sh := open(t, fastConfig())
	revoked := sh.newKey(10)
	if err := sh.s.RevokeKey(t.Context(), revoked); err != nil {
		t.Fatal(err)
	}
	for _, route := range []string{
		"GET /me", "GET /models", "GET /models/detail?id=studio/haiku", "POST /quote", "POST /generations",
		"GET /generations", "GET /generations/x", "GET /generations/x/content", "DELETE /generations/x",
	} {
		method, path, _ := strings.Cut(route, " ")
		for _, credential := range []string{"", "Bearer ", "Bearer sandbox_live_wrong", "Bearer " + revoked, "Basic " + sh.key, sh.key} {
			r := sh.do(method, path, haiku, "Authorization", credential)
			r.want(t, http.StatusUnauthorized, "UNAUTHORIZED")
		}
	}
}

func TestUnknownPathsAndMethodsAreNotFound(t *testing.T) {
	sh := open(t, fastConfig())
	for request, status := range map[string]int{
		"GET /nothing":              404,
		"GET /generations/":         404,
		"GET /generations/a/b":      404,
		"GET /generations/..%2Fme":  404,
		"GET /me/":                  404,
		"POST /me":                  404,
		"PUT /generations":          404,
		"DELETE /generations":       404,
		"POST /generations/x":       404,
		"GET /models/detail?id=x/y": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		if r := sh.do(method, path, `{}`); r.status != status {
			t.Errorf("%s: status %d, want %d", request, r.status, status)
		}
	}
}

func TestInvalidRequestErrorNamesField(t *testing.T) {
	sh := open(t, fastConfig())
	for _, c := range []struct{ body, field string }{
		{`{"inputs":{"prompt":"x"}}`, "modelId"},
		{`{"modelId":7,"inputs":{"prompt":"x"}}`, "modelId"},
		{`{"modelId":"studio/none","inputs":{"prompt":"x"}}`, "modelId"},
		{`{"modelId":"studio/haiku"}`, "inputs"},
		{`{"modelId":"studio/haiku","inputs":null}`, "inputs"},
		{`{"modelId":"studio/haiku","inputs":[]}`, "inputs"},
		{`{"modelId":"studio/haiku","inputs":{}}`, "inputs.prompt"},
		{`{"modelId":"studio/haiku","inputs":{"prompt":""}}`, "inputs.prompt"},
		{`{"modelId":"studio/haiku","inputs":{"prompt":5}}`, "inputs.prompt"},
		{`{"modelId":"studio/haiku","inputs":{"prompt":null}}`, "inputs.prompt"},
		{`{"modelId":"studio/haiku","inputs":{"prompt":"` + strings.Repeat("é", 4001) + `"}}`, "inputs.prompt"},
		{`{"modelId":"studio/haiku","inputs":{"prompt":"x","zoo":1}}`, "inputs.zoo"},
		{`{"modelId":"studio/haiku","inputs":{"prompt":"x"},"extra":1}`, "extra"},
		{`{"modelId":"studio/essay","inputs":{"prompt":"x","paragraphs":201}}`, "inputs.paragraphs"},
		{`{"modelId":"studio/essay","inputs":{"prompt":"x","paragraphs":1.5}}`, "inputs.paragraphs"},
		{`{"modelId":"studio/essay","inputs":{"prompt":"x","paragraphs":"2"}}`, "inputs.paragraphs"},
		{`{"modelId":"studio/essay","inputs":{"prompt":"x","title":1}}`, "inputs.title"},
		{`{"modelId":"studio/landscape","inputs":{"prompt":"x","size":"9x9"}}`, "inputs.size"},
		{`{"modelId":"studio/landscape","inputs":{"prompt":"x","horizon":0.1}}`, "inputs.horizon"},
		{`{"modelId":"studio/landscape","inputs":{"prompt":"x","seed":-1}}`, "inputs.seed"},
		{`{"modelId":"studio/landscape","inputs":{"prompt":"x","seed":9223372036854775808}}`, "inputs.seed"},
		{`{"modelId":"studio/abstract","inputs":{"prompt":"x","palette":["#000000"]}}`, "inputs.palette"},
		{`{"modelId":"studio/abstract","inputs":{"prompt":"x","palette":["#000000","red"]}}`, "inputs.palette[1]"},
		{`{"modelId":"studio/abstract","inputs":{"prompt":"x","palette":"#000000"}}`, "inputs.palette"},
		{`{"modelId":"studio/print","inputs":{"prompt":"x","frame":{"percent":90}}}`, "inputs.frame.percent"},
		{`{"modelId":"studio/print","inputs":{"prompt":"x","frame":{"colour":"#zzzzzz"}}}`, "inputs.frame.colour"},
		{`{"modelId":"studio/print","inputs":{"prompt":"x","frame":{"glass":true}}}`, "inputs.frame.glass"},
	} {
		for _, path := range []string{"/quote", "/generations"} {
			r := sh.do("POST", path, c.body).want(t, http.StatusBadRequest, "INVALID_FIELD").record(t)
			if got := r["details"].(map[string]any)["field"]; got != c.field {
				t.Errorf("POST %s %.80s: field %v, want %s", path, c.body, got, c.field)
			}
		}
	}
	sh.do("POST", "/generations", haiku, "Idempotency-Key", strings.Repeat("k", 256)).want(t, 400, "Idempotency-Key")
}

func TestInvalidOrOversizedRequestBodyIsRejected(t *testing.T) {
	sh := open(t, fastConfig())
	for _, body := range []string{"", "null", "[]", "{", `"x"`, haiku + haiku, "\xff", strings.Replace(haiku, "sea", "\xff", 1)} {
		sh.do("POST", "/quote", body).want(t, http.StatusBadRequest, "INVALID_JSON")
	}
	sh.do("POST", "/quote", haiku, "Content-Type", "text/plain").want(t, http.StatusUnsupportedMediaType, "NOT_JSON")
	sh.do("POST", "/quote", `{"a":"`+strings.Repeat("x", 17<<20)+`"}`).want(t, http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE")
}

func TestModelsAcceptDefaultInputs(t *testing.T) {
	sh := open(t, fastConfig())
	var models []map[string]any
	if err := json.Unmarshal(sh.do("GET", "/models", "").body, &models); err != nil {
		t.Fatal(err)
	}
	kinds, types := map[string]int{}, map[string]int{}
	for _, m := range models {
		kinds[m["type"].(string)]++
		detail := sh.do("GET", "/models/detail?id="+m["id"].(string), "").want(t, 200, "").record(t)
		inputs := map[string]any{"prompt": "x"}
		for _, f := range detail["inputFields"].([]any) {
			f := f.(map[string]any)
			types[f["type"].(string)]++
			if f["label"] == "" || f["description"] == "" {
				t.Errorf("%s: field %s has no label or description", m["id"], f["name"])
			}
			if f["default"] != nil {
				inputs[f["name"].(string)] = f["default"]
			}
		}
		body, err := json.Marshal(map[string]any{"modelId": m["id"], "inputs": inputs})
		if err != nil {
			t.Fatal(err)
		}
		sh.do("POST", "/quote", string(body)).want(t, http.StatusOK, "priceCents")
	}
	if kinds["image"] < 3 || kinds["text"] < 2 {
		t.Errorf("the models by kind are %v, want at least 3 image and 2 text models", kinds)
	}
	for _, kind := range []string{"string", "integer", "number", "boolean", "array", "object"} {
		if types[kind] == 0 {
			t.Errorf("no field of type %s", kind)
		}
	}
}

func TestGenerationListStartsWithNewest(t *testing.T) {
	for limit, want := range map[int]int{0: 100, 2: 2} {
		sh := newAccount(t, sandbox.Config{Speed: 0.001, Dialect: sandbox.Dialect{ListLimit: limit}})
		var ids []string
		for range 105 {
			ids = append([]string{sh.create(haiku)}, ids...)
		}
		var list []struct{ ID string }
		if err := json.Unmarshal(sh.do("GET", "/generations", "").body, &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range list {
			got = append(got, one.ID)
		}
		if diff := cmp.Diff(ids[:want], got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAGenerationOfAnotherAPIKeyIsNotFound(t *testing.T) {
	sh := open(t, fastConfig())
	id := sh.create(haiku)
	sh.awaitStatus(id, "succeeded")
	other := "Bearer " + sh.newKey(0)
	for _, route := range []string{"GET /generations/", "GET /generations/content", "DELETE /generations/"} {
		method, path, _ := strings.Cut(route, " ")
		path, tail := "/generations/", strings.TrimPrefix(path, "/generations/")
		if tail != "" {
			tail = "/" + tail
		}
		foreign := sh.do(method, path+id+tail, "", "Authorization", other)
		unknown := sh.do(method, path+"gen_none"+tail, "", "Authorization", other)
		if foreign.status != 404 || string(foreign.body) != string(unknown.body) {
			t.Errorf("%s: got %d %s, want 404 and the body for an unknown ID: %s", route, foreign.status, foreign.body, unknown.body)
		}
	}
	if body := sh.do("GET", "/generations", "", "Authorization", other).body; string(body) != "[]" {
		t.Errorf("the list of an empty account is %s, want []", body)
	}
}

func TestContentIsReadyOnlyAfterSuccess(t *testing.T) {
	sh := open(t, fastConfig())
	slow := open(t, sandbox.Config{Speed: 0.001})
	queued := slow.create(small)
	slow.do("GET", "/generations/"+queued+"/content", "").want(t, http.StatusConflict, "CONTENT_NOT_READY")

	text := sh.create(haiku)
	if got := sh.awaitStatus(text, "succeeded"); got["textOutput"] == "" || got["contentUrl"] != nil {
		t.Errorf("after success, the text generation is %v, want a textOutput and no contentUrl", got)
	}
	sh.do("GET", "/generations/"+text+"/content", "").want(t, http.StatusNotFound, "NO_CONTENT")

	failed := sh.create(doomed)
	sh.awaitStatus(failed, "refunded")
	sh.do("GET", "/generations/"+failed+"/content", "").want(t, http.StatusNotFound, "NO_CONTENT")
}

func TestContentSupportsRangeRequests(t *testing.T) {
	sh := open(t, fastConfig())
	id := sh.create(`{"modelId":"studio/print","inputs":{"prompt":"x"}}`) // the sandbox sends the result of this model in several parts
	got := sh.awaitStatus(id, "succeeded")
	path := strings.TrimPrefix(got["contentUrl"].(string), sh.url+sandbox.BasePath)
	whole := sh.do("GET", path, "").want(t, 200, "")
	if whole.header.Get("Content-Type") != "image/png" || whole.header.Get("Content-Length") != strconv.Itoa(len(whole.body)) {
		t.Errorf("the headers are %v for %d bytes", whole.header, len(whole.body))
	}
	etag := whole.header.Get("ETag")
	for _, span := range []string{"0-0", "262143-262144", "1000000-1700000", "-77", "5000000-"} {
		r := sh.do("GET", path, "", "Range", "bytes="+span, "If-Range", etag).want(t, http.StatusPartialContent, "")
		var from, to, size int
		if _, err := fmt.Sscanf(r.header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size); err != nil {
			t.Fatal(err)
		}
		if string(r.body) != string(whole.body[from:to+1]) || size != len(whole.body) {
			t.Errorf("range %s has the wrong bytes", span)
		}
	}
	sh.do("GET", path, "", "Range", "bytes=99000000-").want(t, http.StatusRequestedRangeNotSatisfiable, "")
	if r := sh.do("GET", path, "", "Range", "bytes=0-5", "If-Range", `"other"`); r.status != 200 || len(r.body) != len(whole.body) {
		t.Errorf("a range with another ETag: status %d, %d bytes", r.status, len(r.body))
	}
	if r := sh.do("GET", path, "", "Range", "bytes=0-5,9-11"); r.status != 200 || len(r.body) != len(whole.body) {
		t.Errorf("several ranges: status %d, %d bytes", r.status, len(r.body))
	}
	sh.do("GET", path, "", "If-None-Match", etag).want(t, http.StatusNotModified, "")
}

func TestADeletedGenerationIsNotFound(t *testing.T) {
	sh := open(t, fastConfig())
	id := sh.create(small)
	sh.awaitStatus(id, "succeeded")
	if r := sh.do("DELETE", "/generations/"+id, ""); r.status != 204 || len(r.body) != 0 {
		t.Errorf("DELETE: %d %q", r.status, r.body)
	}
	sh.do("DELETE", "/generations/"+id, "").want(t, 404, "GENERATION_NOT_FOUND")
	sh.do("GET", "/generations/"+id, "").want(t, 404, "GENERATION_NOT_FOUND")
	sh.do("GET", "/generations/"+id+"/content", "").want(t, 404, "GENERATION_NOT_FOUND")
	if body := sh.do("GET", "/generations", "").body; string(body) != "[]" {
		t.Errorf("the list after the deletion is %s, want []", body)
	}
}

func TestRateLimitedRequestsGetRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAccount(t, sandbox.Config{RateLimit: 0.5})
		b.do("GET", "/me", "").want(t, 200, "")
		r := b.do("GET", "/me", "").want(t, 429, "RATE_LIMITED")
		if r.header.Get("Retry-After") != "2" {
			t.Errorf("Retry-After is %q, want 2", r.header.Get("Retry-After"))
		}
		time.Sleep(time.Second)
		b.do("GET", "/me", "").want(t, 429, "")
		time.Sleep(time.Second)
		b.do("GET", "/me", "").want(t, 200, "")
		b.key = b.newKey(1000)
		b.do("GET", "/me", "").want(t, 200, "") // allowed, because each API key has its own token bucket
	})
}

func TestRequestsAreCountedByRoute(t *testing.T) {
	sh := open(t, fastConfig())
	sh.do("GET", "/me", "")
	sh.do("GET", "/me", "", "Authorization", "")
	sh.do("GET", "/generations/a", "")
	sh.do("GET", "/generations/b", "")
	sh.do("GET", "/generations/b/content", "")
	sh.do("GET", "/nowhere", "")
	want := map[string]int{"GET /me": 2, "GET /generations/{id}": 2, "GET /generations/{id}/content": 1, "unknown": 1}
	if diff := cmp.Diff(want, sh.s.Requests()); diff != "" {
		t.Error(diff)
	}
}
