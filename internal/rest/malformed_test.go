package rest

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

func TestAnUnreadableRequestNamesItsField(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	const generation, order = "/v1/generations/g", "/v1/generations"
	for _, test := range []struct {
		name, path, body, header string // a request with a body uses POST
		field, says              string
	}{
		{name: "an invalid number", path: order + "?pageSize=ten", field: "pageSize"},
		{name: "a number that is too large", path: order + "?pageSize=99999999999", field: "pageSize"},
		{name: "a number by its name in the contract", path: order + "?page_size=1e9", field: "pageSize"},
		{name: "a parameter twice", path: order + "?pageSize=1&pageSize=2", field: "pageSize"},
		{name: "an invalid state", path: order + "?filter.states=DONE", field: "states"},
		{name: "a label twice", path: order + "?filter.labels[a]=1&filter.labels[a]=2"},
		{name: "an invalid duration", path: generation + "?maxStaleness=soon", field: "maxStaleness"},
		{name: "a duration without a unit", path: generation + ":watch?heartbeatInterval=15", field: "heartbeatInterval"},
		{name: "an invalid bool", path: generation + ":watch?includeContent=maybe", field: "includeContent"},
		{name: "an invalid offset", path: generation + "/content?readOffset=-", field: "readOffset"},
		{name: "an invalid time", path: "/v1/usage?startTime=yesterday", field: "startTime"},
		{name: "a query that is not escaped", path: order + "?pageSize=%zz", says: "valid UTF-8"},
		{name: "a semicolon", path: order + "?pageSize=1;pageToken=x", says: "semicolon"},
		{name: "a path that is not escaped", path: "/v1/generations/%FF", says: "valid UTF-8"},
		{name: "an invalid deadline", path: generation, header: "Grpc-Timeout: soon"},
		{name: "a deadline of nothing", path: generation + ":watch", header: "Grpc-Timeout: S"},

		{name: "an invalid goal", path: generation + ":watch?until=LATER", field: "until"},
		{name: "an invalid goal of many", path: order + ":watch?until=LATER", field: "until"},
		{name: "an invalid deadline of a download", path: generation + "/content", header: "Grpc-Timeout: soon"},
		{name: "a query of a download that is not escaped", path: generation + "/content?etag=%zz", says: "valid UTF-8"},

		{name: "no JSON", path: order, body: "model=a"},
		{name: "JSON and more", path: order, body: `{"modelId": "m"} {"modelId": "n"}`},
		{name: "an array", path: order, body: `[]`},
		{name: "an unknown member", path: order, body: `{"modelID": "m"}`, field: "modelID"},
		{name: "half a body", path: order, body: `{"modelId":`, says: "the body is not complete JSON"},
		{name: "half a text", path: order, body: `{"modelId": "m`, says: "the body is not complete JSON"},
		{name: "a member twice", path: order, body: `{"modelId": "m", "model_id": "m"}`, field: "modelId"},
		{name: "text of another type", path: order, body: `{"modelId": 5}`, field: "modelId"},
		{name: "a number of another type", path: order, body: `{"maxCostCents": "ten"}`, field: "maxCostCents"},
		{name: "inputs of another type", path: order, body: `{"inputs": 5}`, field: "inputs"},
		{name: "labels of another type", path: order, body: `{"labels": {"a": 5}}`, field: "labels.a"},
		{name: "an input twice", path: order, body: "{\"modelId\": \"m\",\n\"inputs\": {\"é\": 1, \"a\": [], \"b\": {\"a\": 1, \"a\": 2}}}", field: "inputs.b.a"},
		{name: "a label twice in a body", path: order, body: `{"labels": {"a": "1", "a": "2"}}`, field: "labels.a"},
		{name: "a byte that is not UTF-8", path: order, body: "{\"modelId\": \"\xff\"}"},
		{name: "a body that is nested too deeply", path: order, body: `{"inputs": {"a": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}}", field: "inputs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			method, headers := http.MethodGet, []string{}
			if test.body != "" {
				method = http.MethodPost
			}
			if test.header != "" {
				headers = append(headers, test.header)
			}
			answer, text := servertest.Do(t, s.HTTP, servertest.Request(t, method, test.path, test.body, headers...))
			st := servertest.WantError(t, servertest.RESTStatus(t, text).Err(), codes.InvalidArgument, "INVALID_REQUEST")
			if answer.StatusCode != http.StatusBadRequest {
				t.Errorf("the response is %s with %s", answer.Status, text)
			}
			faults := service.Detail[*errdetails.BadRequest](st).GetFieldViolations()
			if len(faults) != 1 || test.field != "" && faults[0].GetField() != test.field || !strings.Contains(faults[0].GetDescription(), test.says) {
				t.Errorf("the violations are %v", faults)
			}
			if want := strings.TrimPrefix(test.field+": "+test.says, ": "); !strings.HasPrefix(st.Message(), test.field) || test.body != "" && test.says != "" && st.Message() != want {
				t.Errorf("the message is %q", st.Message())
			}
		})
	}
}
