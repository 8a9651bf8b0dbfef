package rest

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

// ofParsers is how Go's parsers and the gateway speak.
var ofParsers = regexp.MustCompile(`strconv|json:|proto:|protojson|protobuf|time: (?:invalid|unknown|missing)|cannot parse|[Uu]nmarshal|parsing|syntax error|unexpected token|invalid character|invalid URL|grpc-timeout:|timeout string|type mismatch|oneof|Go value|EOF|\(line \d+:`)

func TestNoTextOfAParserReachesACaller(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	const generation, order = "/v1/generations/g", "/v1/generations"
	for _, test := range []struct {
		name, path, body, header string // a body makes it a POST
		field, says              string
	}{
		{name: "a number that is none", path: order + "?pageSize=ten", field: "pageSize", says: "another type"},
		{name: "a number that is too large", path: order + "?pageSize=99999999999", field: "pageSize", says: "another type"},
		{name: "a number by its name in the contract", path: order + "?page_size=1e9", field: "pageSize", says: "another type"},
		{name: "a parameter twice", path: order + "?pageSize=1&pageSize=2", field: "pageSize", says: "more than once"},
		{name: "a state that is none", path: order + "?filter.states=DONE", field: "states", says: "/openapi.json says which"},
		{name: "a label twice", path: order + "?filter.labels[a]=1&filter.labels[a]=2", says: "more than once"},
		{name: "a duration that is none", path: generation + "?maxStaleness=soon", field: "maxStaleness", says: "another type"},
		{name: "a duration without a unit", path: generation + ":watch?heartbeatInterval=15", field: "heartbeatInterval", says: "another type"},
		{name: "a yes that is none", path: generation + ":watch?includeContent=maybe", field: "includeContent", says: "another type"},
		{name: "an offset that is none", path: generation + "/content?readOffset=-", field: "readOffset", says: "another type"},
		{name: "a time that is none", path: "/v1/usage?startTime=yesterday", field: "startTime", says: "another type"},
		{name: "a query that is not escaped", path: order + "?pageSize=%zz", says: "valid UTF-8"},
		{name: "a semicolon", path: order + "?pageSize=1;pageToken=x", says: "semicolon"},
		{name: "a path that is not escaped", path: "/v1/generations/%FF", says: "valid UTF-8"},
		{name: "a deadline that is none", path: generation, header: "Grpc-Timeout: soon", says: "Grpc-Timeout"},
		{name: "a deadline without a unit", path: generation, header: "Grpc-Timeout: 1", says: "Grpc-Timeout"},
		{name: "a deadline of nothing", path: generation + ":watch", header: "Grpc-Timeout: S", says: "Grpc-Timeout"},

		{name: "no JSON", path: order, body: "model=a", says: "not valid JSON"},
		{name: "JSON that ends", path: order, body: `{"modelId": "m"`, says: "ends before"},
		{name: "JSON and more", path: order, body: `{"modelId": "m"} {"modelId": "n"}`, says: "not valid JSON"},
		{name: "an array", path: order, body: `[]`, says: "another type"},
		{name: "a number", path: order, body: `1`, says: "another type"},
		{name: "a comma too many", path: order, body: `{"modelId": "m",}`, says: "not valid JSON"},
		{name: "a quote that is open", path: order, body: `{"modelId": "m`, says: "JSON"},
		{name: "a member that is none", path: order, body: `{"modelID": "m"}`, field: "modelID", says: "no field of this request (line 1, column 2 of the body)"},
		{name: "a member twice", path: order, body: `{"modelId": "m", "model_id": "m"}`, field: "modelId", says: "more than once"},
		{name: "text of another type", path: order, body: `{"modelId": 5}`, field: "modelId", says: "another type"},
		{name: "a number of another type", path: order, body: `{"maxCostCents": "ten"}`, field: "maxCostCents", says: "another type"},
		{name: "inputs of another type", path: order, body: `{"inputs": 5}`, says: "another type"},
		{name: "labels of another type", path: order, body: `{"labels": {"a": 5}}`, says: "another type"},
		{name: "a byte that is no text", path: order, body: "{\"modelId\": \"\xff\"}", says: "UTF-8"},
		{name: "an escape that is none", path: order, body: `{"modelId": "\x"}`, says: "not valid JSON"},
		{name: "a body that is nested too deeply", path: order, body: `{"inputs": {"a": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}}", says: "nested too deeply"},
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
			if answer.StatusCode != http.StatusBadRequest || ofParsers.MatchString(text) {
				t.Errorf("it is answered %s with %s", answer.Status, text)
			}
			faults := service.Detail[*errdetails.BadRequest](st).GetFieldViolations()
			if len(faults) != 1 || test.field != "" && faults[0].GetField() != test.field || !strings.Contains(faults[0].GetDescription(), test.says) {
				t.Errorf("the violations are %v", faults)
			}
			if !strings.HasPrefix(st.Message(), test.field) {
				t.Errorf("the message is %q", st.Message())
			}
		})
	}
}
