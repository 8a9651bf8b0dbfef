package rest

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

func TestHTTPStatusOfEachReasonMatchesProtoComment(t *testing.T) {
	source, err := os.ReadFile("../../proto/easel/v1/error.proto")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`^ [A-Z_]+ \((?:only over REST, )?HTTP (\d+)\)\.`)
	found := 0
	for _, m := range regexp.MustCompile(`(?m)((?:^  //.*\n)+)  ([A-Z_]+) = \d+;`).FindAllStringSubmatch(string(source), -1) {
		reason, want := easelv1.ErrorReason(easelv1.ErrorReason_value[m[2]]), 0
		if status := said.FindStringSubmatch(strings.ReplaceAll(m[1], "  //", "")); status != nil {
			want, _ = strconv.Atoi(status[1])
			found++
		}
		if got := httpCodes[reason]; got != want || want != 0 && httpCode(service.NewStatus(reason, "", nil)) != want {
			t.Errorf("%v returns %d %s, but its comment says %d", reason, got, http.StatusText(got), want)
		}
	}
	if found != len(httpCodes) {
		t.Errorf("%d comments give an HTTP status, but %d reasons have their own status", found, len(httpCodes))
	}
}
