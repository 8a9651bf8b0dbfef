package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// TestSecurityPolicyListsTestsForEachAPIRisk checks that SECURITY.md lists at least one test for each of OWASP's ten API
// risks, and that all listed tests exist.
func TestSecurityPolicyListsTestsForEachAPIRisk(t *testing.T) {
	page := proctest.Read(t, ".github", "SECURITY.md")
	exist, named := allTests(t), regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	for n := 1; n <= 10; n++ {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| API%d .*$`, n)).FindString(page)
		tests := named.FindAllStringSubmatch(row, -1)
		if len(tests) == 0 || strings.Count(row, " | ") != 2 {
			t.Errorf("API%d has no test: %q", n, row)
		}
		for _, test := range tests {
			if !exist[test[1]] {
				t.Errorf("API%d refers to the test %s, which does not exist", n, test[1])
			}
		}
	}
}
