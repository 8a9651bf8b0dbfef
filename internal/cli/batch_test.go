package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// counter is a scripted server that remembers which render each key stands for, and ends
// every render at once with a text.
type counter struct {
	refuse func(n int) error // of the nth order, nil takes it
	hold   atomic.Bool       // renders do not end

	mu   sync.Mutex
	keys []string // in the order in which they came first
	got  []*easelv1.CreateGenerationRequest
}

func (c *counter) serve(t *testing.T) dialer {
	return (&scripted{
		model: func(*easelv1.GetModelRequest) (*easelv1.Model, error) { return described(), nil },
		create: func(r *easelv1.CreateGenerationRequest) (*easelv1.Generation, error) {
			g, err := c.create(r)
			if errors.Is(err, errHangs) {
				<-t.Context().Done()
			}
			return g, err
		},
		watch: func(r *easelv1.WatchGenerationRequest, s oneStream) error {
			if c.hold.Load() {
				<-s.Context().Done()
				return s.Context().Err()
			}
			g := render(r.GenerationId, succeeded)
			g.Result = &easelv1.Generation_Text{Text: &easelv1.TextResult{Text: "poem of " + r.GenerationId}}
			return s.Send(&easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Update{
				Update: &easelv1.GenerationUpdate{Generation: g},
			}})
		},
	}).serve(t)
}

func (c *counter) create(r *easelv1.CreateGenerationRequest) (*easelv1.Generation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, r)
	if c.refuse != nil {
		if err := c.refuse(len(c.got)); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(c.keys, r.IdempotencyKey) {
		c.keys = append(c.keys, r.IdempotencyKey)
	}
	return render(fmt.Sprintf("gen_%d", slices.Index(c.keys, r.IdempotencyKey)+1), queued), nil
}

// easelReading runs the command with a text on standard input.
func easelReading(ctx context.Context, dial dialer, stdin string, args ...string) printed {
	stdout, stderr := newBuffer(), newBuffer()
	exit := Run(ctx, args, &Program{
		Grammar: grammar(),
		Stdin:   strings.NewReader(stdin), Stdout: stdout, Stderr: stderr, Dial: dial,
		Lookup: func(string) (string, bool) { return "", false },
	})
	return printed{exit, stdout.String(), stderr.String()}
}

func TestEachOfSeveralOrdersHasAKeyOfItsOwnThatIsToldFirst(t *testing.T) {
	c := &counter{}
	got := easelRun(t.Context(), c.serve(t), "generate", "studio/any", "prompt=x", "--count", "12", "--idempotency-key", "sea")
	if got.exit != ExitOK || len(c.keys) != 12 || len(c.got) != 12 || len(linesOf(got.stdout)) != 12 {
		t.Fatalf("exit %d, %d keys, %d orders\n%s%s", got.exit, len(c.keys), len(c.got), got.stdout, got.stderr)
	}
	for n := range 12 {
		if key := fmt.Sprintf("sea-%d", n+1); !slices.Contains(c.keys, key) {
			t.Errorf("no order has the key %s", key)
		}
	}
	if first := linesOf(got.stderr)[0]; !strings.Contains(first, "sea-1 to -12") {
		t.Errorf("the first line is %q", first)
	}
}

func TestOrdersAreReadFromLines(t *testing.T) {
	c := &counter{}
	lines := "# poems\nprompt=\"a calm sea\" seed=7\n\n  prompt='at dusk'\n{\"prompt\": \"fog\", \"seed\": 9007199254740993}\n"
	got := easelReading(t.Context(), c.serve(t), lines, "generate", "studio/any", "--from-stdin", "--idempotency-key", "k", "--watch", "-q")
	want := map[string]string{
		"k-8d21da7fe8263c16": `{"prompt":"a calm sea","seed":7}`, "k-d6877903a4f9dd22": `{"prompt":"at dusk"}`,
		"k-b3647b9502a49d87": `{"prompt": "fog", "seed": 9007199254740993}`,
	}
	if got.exit != ExitOK || len(c.got) != len(want) || len(linesOf(got.stdout)) != 3 || !strings.Contains(got.stdout, "poem of gen_3") {
		t.Fatalf("exit %d, %d orders\n%s%s", got.exit, len(c.got), got.stdout, got.stderr)
	}
	for _, r := range c.got {
		if r.GetInputsJson() != want[r.IdempotencyKey] {
			t.Errorf("%s ordered %s", r.IdempotencyKey, r.GetInputsJson())
		}
	}
}

func TestLinesMayComeAndGoBeforeTheRestIsPickedUp(t *testing.T) {
	c := &counter{}
	dial := c.serve(t)
	generate := func(lines string) {
		t.Helper()
		got := easelReading(t.Context(), dial, lines, "generate", "studio/any", "--from-stdin", "--idempotency-key", "k")
		if got.exit != ExitOK {
			t.Fatalf("exit %d\n%s", got.exit, got.stderr)
		}
	}
	generate("prompt=sea\nprompt=fog\nprompt=sea\n")
	if len(c.keys) != 3 {
		t.Fatalf("%d orders for three lines, of which two are the same", len(c.keys))
	}
	generate("prompt=sea\n\n# poems\n  prompt=sea \nprompt=fog\n") // moved
	generate("prompt=fog\n")                                       // taken out
	if len(c.keys) != 3 {
		t.Errorf("%d orders, want the three", len(c.keys))
	}
	generate("prompt=dusk\nprompt=sea\nprompt=fog\nprompt=sea\n")
	if len(c.keys) != 4 {
		t.Errorf("%d orders, want the three and the one that was added", len(c.keys))
	}
	inputs := map[string]string{}
	for _, r := range c.got {
		if before, again := inputs[r.IdempotencyKey]; again && before != r.GetInputsJson() {
			t.Errorf("the key %s stands for %s and %s", r.IdempotencyKey, before, r.GetInputsJson())
		}
		inputs[r.IdempotencyKey] = r.GetInputsJson()
	}
}

func TestWhatTheCommandLineSaysIsCommonToAllLines(t *testing.T) {
	c := &counter{}
	got := easelReading(t.Context(), c.serve(t), "prompt=a\nprompt=b\n", "generate", "studio/any", "seed=7", "--from-stdin")
	if got.exit != ExitOK || len(c.got) != 2 || !strings.HasPrefix(c.got[0].GetInputsJson(), `{"seed":7,"prompt":`) {
		t.Errorf("exit %d, %v\n%s", got.exit, c.got, got.stderr)
	}
}

func TestOneBadLineAndNothingIsOrdered(t *testing.T) {
	for lines, want := range map[string]string{
		"prompt=a\nseed=many\n":            "line 2: inputs.seed must be a whole number",
		"prompt=a\n\npromt=b\n":            "line 3: inputs.promt is no input of studio/any; did you mean prompt?",
		"prompt=\"a\n":                     "line 1: a quote",
		"prompt=a\n{\"prompt\": }\n":       "line 2: it is not one JSON object",
		"prompt=a\n[1]\n":                  `line 2: "[1]" is not of the form key=value`,
		"\n# nothing\n":                    "no order on standard input",
		strings.Repeat("prompt=a\n", 1001): "more than 1000 orders",
	} {
		c := &counter{}
		got := easelReading(t.Context(), c.serve(t), lines, "generate", "studio/any", "--from-stdin")
		if got.exit != ExitUsage || len(c.got) != 0 || !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, nothingOrdered) {
			t.Errorf("%.30q: exit %d after %d orders\n%s", lines, got.exit, len(c.got), got.stderr)
		}
	}
}

func TestFlagsThatDoNotGoTogetherAreRefused(t *testing.T) {
	for _, flags := range []string{
		"--count 0", "--count 1001", "--count 2 --from-stdin", "--count 2 --out a.png", "--from-stdin --out -", "--from-stdin --inputs-json {}",
	} {
		args := strings.Fields(flags)
		c := &counter{}
		got := easelRun(t.Context(), c.serve(t), append([]string{"generate", "studio/any"}, args...)...)
		if got.exit != ExitUsage || len(c.got) != 0 {
			t.Errorf("%q: exit %d after %d orders\n%s", args, got.exit, len(c.got), got.stderr)
		}
	}
}

func TestSeveralOrdersAsJSONAreALineEach(t *testing.T) {
	c := &counter{refuse: func(n int) error {
		if n == 2 {
			return failing(codes.InvalidArgument, "UPSTREAM_INVALID_INPUT")
		}
		return nil
	}}
	dir := t.TempDir()
	got := easelRun(t.Context(), c.serve(t), "generate", "studio/any", "prompt=x", "--count", "3", "-o", "json", "--out", dir)
	refused, saved := 0, 0
	for _, line := range linesOf(got.stdout) {
		var r struct {
			orderResult
			Generation struct{ State string } `json:"generation"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Order == 0 || r.IdempotencyKey == "" {
			t.Fatalf("%v: %s", err, line)
		}
		if outcome := map[bool]string{true: "not_placed", false: "placed"}[r.Error != nil]; r.OrderOutcome != outcome {
			t.Errorf("the outcome of order %d is %q, want %q", r.Order, r.OrderOutcome, outcome)
		}
		if r.Error != nil {
			refused++
			continue
		}
		if text, err := os.ReadFile(r.Path); err == nil && strings.HasPrefix(string(text), "poem of") && filepath.Dir(r.Path) == dir && r.Generation.State == "STATE_SUCCEEDED" {
			saved++
		}
	}
	if got.exit != ExitUsage || refused != 1 || saved != 2 {
		t.Errorf("exit %d, %d refused, %d saved\n%s", got.exit, refused, saved, got.stdout)
	}
	lines := linesOf(got.stderr)
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q is no JSON", line)
		}
	}
	var keys struct {
		Key    string `json:"idempotency_key"`
		First  string `json:"first_idempotency_key"`
		Orders int    `json:"orders"`
	}
	var end struct{ Error failure }
	if json.Unmarshal([]byte(lines[0]), &keys) != nil || keys.Orders != 3 || keys.First != keys.Key+"-1" {
		t.Errorf("the keys are told as %s", lines[0])
	}
	if json.Unmarshal([]byte(lines[len(lines)-1]), &end) != nil || end.Error.Batch == nil || end.Error.Batch.Orders != 3 || end.Error.Batch.Finished != 2 ||
		end.Error.Batch.FirstUnfinished == 0 || !strings.Contains(end.Error.Batch.RetryCommand, keys.Key) {
		t.Errorf("the end is told as %s", lines[len(lines)-1])
	}
}

func TestWithoutMoneyTheNextOrdersAreNotSent(t *testing.T) {
	c := &counter{refuse: func(int) error { return failing(codes.FailedPrecondition, "INSUFFICIENT_BALANCE") }}
	got := easelRun(t.Context(), c.serve(t), "generate", "studio/any", "prompt=x", "--count", "200", "--idempotency-key", "k")
	if got.exit != ExitMoney || len(c.got) > 2*placing || !strings.Contains(got.stderr, fmt.Sprintf("%d refused now, may be ordered", len(c.got))) ||
		!strings.Contains(got.stderr, fmt.Sprintf("%d not sent", 200-len(c.got))) || !strings.Contains(got.stderr, "Top up") {
		t.Errorf("exit %d after %d orders\n%s", got.exit, len(c.got), got.stderr)
	}
}

func TestOnlyWhatIsCertainIsSaidOfOrdersThatFailed(t *testing.T) {
	bad := failing(codes.InvalidArgument, "UPSTREAM_INVALID_INPUT")
	unknown := failing(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", retryAfter(time.Second))
	away := unsent(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", retryAfter(time.Second))
	notAway := notPlaced(codes.Unavailable, "UPSTREAM_UNAVAILABLE")
	for name, test := range map[string]struct {
		refuse func(n int) error
		flags  []string
		want   string
	}{
		"refused under a new key":             {func(int) error { return bad }, nil, "2 not ordered"},
		"refused under a key that was there":  {func(int) error { return bad }, []string{"--idempotency-key", "k"}, "2 refused now, may be ordered"},
		"refused after an unknown outcome":    {func(n int) error { return []error{unknown, unknown, bad, bad}[n-1] }, nil, "2 refused now, may be ordered"},
		"unknown in between":                  {func(n int) error { return []error{unknown, unknown, away, away}[min(n, 4)-1] }, []string{"--timeout", "3300ms"}, "2 may be ordered"},
		"nothing could be sent":               {func(int) error { return away }, []string{"--timeout", "3300ms"}, "2 not ordered"},
		"nothing sent, under a key that was":  {func(int) error { return away }, []string{"--timeout", "3300ms", "--idempotency-key", "k"}, "2 may be ordered"},
		"not placed, then no answer in time":  {func(n int) error { return []error{notAway, notAway, errHangs, errHangs}[n-1] }, []string{"--timeout", "9s"}, "2 may be ordered"},
		"unknown until there is no more time": {func(int) error { return unknown }, []string{"--timeout", "3300ms"}, "2 may be ordered"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &counter{refuse: test.refuse}
			got := easelRun(t.Context(), c.serve(t), append([]string{"generate", "studio/any", "prompt=x", "--count", "2"}, test.flags...)...)
			if got.exit == ExitOK || !strings.Contains(got.stderr, "2 orders: "+test.want+";") {
				t.Errorf("%s: exit %d\n%s", name, got.exit, got.stderr)
			}
		})
	}
}

func TestTheSameCommandWithItsKeyPicksUpWhatWasInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		c := &counter{}
		c.hold.Store(true)
		time.AfterFunc(time.Second, interrupt)
		dir := t.TempDir()
		dial := c.serve(t)
		got := easelRun(ctx, dial, "generate", "studio/any", "prompt=a calm sea", "--count", "3", "--out", dir)
		_, again, found := strings.Cut(got.stderr, ": easel ")
		if got.exit != ExitInterrupted || !found || !strings.Contains(got.stderr, "stay paid") || !strings.Contains(got.stderr, "0 of 3") {
			t.Fatalf("exit %d\n%s", got.exit, got.stderr)
		}
		words, err := splitWords(strings.TrimSpace(again))
		if err != nil {
			t.Fatal(err)
		}
		c.hold.Store(false)
		for range 2 { // the second time every file is there
			got = easelRun(t.Context(), dial, words...)
			if files, _ := os.ReadDir(dir); got.exit != ExitOK || len(c.keys) != 3 || len(files) != 3 {
				t.Fatalf("easel %q: exit %d, %d keys, %d files\n%s%s", words, got.exit, len(c.keys), len(files), got.stdout, got.stderr)
			}
		}
	})
}

func TestALineIsSplitAsAShellDoes(t *testing.T) {
	for line, want := range map[string][]string{
		`a=1 b=2`: {"a=1", "b=2"}, `  a="x  y"	b='"' `: {"a=x  y", `b="`}, `a=\"x b=\ y`: {`a="x`, "b= y"}, `a='\' b=""`: {`a=\`, "b="}, `a=é"ü"`: {"a=éü"},
	} {
		if got, err := splitWords(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v; want %q", line, got, err, want)
		}
	}
}

// What is said at the end of a batch is true of all of its orders, and leads to no second one.
func TestTheEndOfABatchClaimsNoMoreThanIsKnown(t *testing.T) { // A10
	for name, test := range map[string]struct {
		second error
		want   string
		never  string
	}{
		"no money for the second":   {failing(codes.FailedPrecondition, "INSUFFICIENT_BALANCE"), "Top up the account", nothingOrdered},
		"a wrong input":             {failing(codes.InvalidArgument, "UPSTREAM_INVALID_INPUT"), "under the same API key, and within 12 hours", nothingOrdered},
		"the API key is rejected":   {failing(codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED"), listFirst, nothingOrdered},
		"too late to be sent again": {failing(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN"), lookFirst, "goes on with what is missing"},
	} {
		c := &counter{refuse: func(n int) error {
			if n == 2 {
				return test.second
			}
			return nil
		}}
		got := easelRun(t.Context(), c.serve(t), "generate", "studio/any", "prompt=x", "--count", "2")
		_, end, _ := strings.Cut(got.stderr, "did not end well")
		if got.exit == ExitOK || !strings.Contains(end, test.want) || strings.Contains(end, test.never) {
			t.Errorf("%s: exit %d\n%s", name, got.exit, got.stderr)
		}
	}
}
