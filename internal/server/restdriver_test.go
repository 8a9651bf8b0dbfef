package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// restCaller sends calls over REST, following the HTTP rules in the contract.
type restCaller struct {
	*stack
	key string
}

func (c restCaller) call(ctx context.Context, method string, req, resp proto.Message) error {
	r := c.request(ctx, method, req)
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return restError(answer, body)
	}
	return protojson.Unmarshal(body, resp)
}

// restFailure is an error over REST. It contains the status from the body, the HTTP status and the headers.
type restFailure struct {
	status *status.Status
	code   int
	header http.Header
}

func (f *restFailure) Error() string { return fmt.Sprintf("HTTP %d: %v", f.code, f.status.Err()) }

func (f *restFailure) GRPCStatus() *status.Status { return f.status }

func restError(answer *http.Response, body []byte) error {
	var message rpcstatus.Status
	if err := protojson.Unmarshal(body, &message); err != nil {
		return fmt.Errorf("HTTP %d with a body that is not a status: %s", answer.StatusCode, body)
	}
	return &restFailure{status.FromProto(&message), answer.StatusCode, answer.Header}
}

func (c restCaller) watch(ctx context.Context, req *easelv1.WatchGenerationRequest, fn func(*easelv1.WatchGenerationResponse)) error {
	return readMessages(c, c.request(ctx, "GenerationService/WatchGeneration", req), &easelv1.WatchGenerationResponse{}, func(m *easelv1.WatchGenerationResponse) bool {
		fn(m)
		return true
	})
}

// If req has both IDs and known etags, watchMany sends a POST request, and otherwise a GET request. It passes every message to
// fn, until the stream ends or fn returns false.
func (c restCaller) watchMany(ctx context.Context, req *easelv1.WatchGenerationsRequest, fn func(*easelv1.WatchGenerationsResponse) bool) error {
	r := c.request(ctx, "GenerationService/WatchGenerations", req)
	if len(req.GetGenerationIds()) > 0 && len(req.GetKnownEtags()) > 0 {
		text, err := protojson.Marshal(req)
		if err != nil {
			return err
		}
		r.Method, r.URL.RawQuery, r.Body = http.MethodPost, "", io.NopCloser(bytes.NewReader(text))
		r.Header.Set("Content-Type", "application/json")
	}
	return readMessages(c, r, &easelv1.WatchGenerationsResponse{}, fn)
}

func (c restCaller) events(ctx context.Context, req *easelv1.WatchEventsRequest, fn func(*easelv1.WatchEventsResponse) bool) error {
	return readMessages(c, c.request(ctx, "GenerationService/WatchEvents", req), &easelv1.WatchEventsResponse{}, fn)
}

// readMessages decodes each line of a stream into a message and passes the message to fn. It stops when the stream ends or fn
// returns false.
func readMessages[M proto.Message](c restCaller, r *http.Request, empty M, fn func(M) bool) error {
	err := c.readLines(r, func(line []byte) error {
		m, _ := empty.ProtoReflect().New().Interface().(M)
		if err := protojson.Unmarshal(line, m); err != nil {
			return fmt.Errorf("invalid line %s: %w", line, err)
		}
		if !fn(m) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// readLines passes every line of a stream to fn, until the stream ends or fn returns an error.
func (c restCaller) readLines(r *http.Request, fn func(line []byte) error) error {
	r.Header.Set("Accept", "application/x-ndjson")
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		return restError(answer, body)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var failed struct {
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &failed); err == nil && failed.Error != nil {
			return restError(answer, failed.Error)
		}
		if err := fn(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (c restCaller) download(ctx context.Context, req *easelv1.DownloadGenerationRequest, into io.Writer) error {
	answer, err := c.http.Do(c.request(ctx, "GenerationService/DownloadGeneration", req))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		body, _ := io.ReadAll(answer.Body)
		return restError(answer, body)
	}
	_, err = io.Copy(into, answer.Body)
	return err
}

var pathVariable = regexp.MustCompile(`\{(\w+)(=\*\*)?\}`)

// request returns the HTTP request for a call. Fields that are variables in the path are part of the URL. The other fields are
// in the body if the HTTP rule has a body, and in query parameters otherwise.
func (c restCaller) request(ctx context.Context, method string, req proto.Message) *http.Request {
	c.Helper()
	verb, pattern, withBody := httpRule(c.T, method)
	fields := map[string]any{}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(req)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		c.Fatal(err)
	}
	path := pathVariable.ReplaceAllStringFunc(pattern, func(v string) string {
		parts := pathVariable.FindStringSubmatch(v)
		value := fmt.Sprint(fields[parts[1]])
		delete(fields, parts[1])
		if parts[2] != "" {
			return strings.ReplaceAll(url.PathEscape(value), "%2F", "/")
		}
		return strings.ReplaceAll(url.PathEscape(value), ":", "%3A") // an unescaped colon would start a custom verb
	})
	var body io.Reader
	query := url.Values{}
	if withBody {
		body = bytes.NewReader(text)
	} else {
		addToQuery(query, "%s", fields)
	}
	r, err := http.NewRequestWithContext(ctx, verb, c.restURL+path, body)
	if err != nil {
		c.Fatal(err)
	}
	r.URL.RawQuery = query.Encode()
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if end, ok := ctx.Deadline(); ok { // a timeout slightly shorter than the client's own, so that the server's error can still arrive
		r.Header.Set("Grpc-Timeout", fmt.Sprintf("%dm", time.Until(end).Milliseconds()-10))
	}
	if withBody {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// addToQuery adds fields as query parameters. A nested field is named parent.field. The key of a map entry is in brackets.
func addToQuery(query url.Values, form string, fields map[string]any) {
	for name, value := range fields {
		name = fmt.Sprintf(form, name)
		switch value := value.(type) {
		case []any:
			for _, one := range value {
				query.Add(name, fmt.Sprint(one))
			}
		case map[string]any:
			inner := name + ".%s"
			if strings.HasSuffix(name, "labels") || name == "known_etags" {
				inner = name + "[%s]"
			}
			addToQuery(query, inner, value)
		default:
			query.Add(name, fmt.Sprint(value))
		}
	}
}

// httpRule returns a method's HTTP rule from the contract.
func httpRule(t *testing.T, method string) (verb, pattern string, body bool) {
	t.Helper()
	name := protoreflect.FullName("easel.v1." + strings.ReplaceAll(method, "/", "."))
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	rule, _ := proto.GetExtension(descriptor.Options(), annotations.E_Http).(*annotations.HttpRule)
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return "GET", p.Get, false
	case *annotations.HttpRule_Delete:
		return "DELETE", p.Delete, false
	case *annotations.HttpRule_Post:
		return "POST", p.Post, true
	}
	t.Fatalf("%s has no HTTP rule", method)
	return "", "", false
}
