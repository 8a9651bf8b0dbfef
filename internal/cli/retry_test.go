package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// shakyServer starts a scripted server. It responds to the first requests for a model or a quote with the given errors,
// one for each request, and then succeeds. It adds each order to o.got.
func shakyServer(t *testing.T, o *orders, errors ...error) dialer {
	next := func() error {
		if len(errors) == 0 {
			return nil
		}
		err := errors[0]
		errors = errors[1:]
		return err
	}
	return (&scripted{
		model: func(*easelv1.GetModelRequest) (*easelv1.Model, error) { return describedModel(), next() },
		quote: func(*easelv1.QuoteGenerationRequest) (*easelv1.Quote, error) {
			return &easelv1.Quote{PriceCents: 5}, next()
		},
		create: func(r *easelv1.CreateGenerationRequest) (*easelv1.Generation, error) {
			o.got = append(o.got, r)
			return render("gen_1", queued), nil
		},
	}).serve(t)
}

func TestRetriesWaitForDelayRequestedByServer(t *testing.T) {
	later := []error{
		serverError(codes.Unavailable, "UPSTREAM_UNAVAILABLE", retryAfter(2*time.Second)),
		serverError(codes.ResourceExhausted, "UPSTREAM_RATE_LIMITED", retryAfter(3*time.Second)),
	}
	for _, command := range []string{"generate", "quote"} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			got := easelRun(t.Context(), shakyServer(t, &orders{}, later...), command, "studio/any", "prompt=x")
			if took := time.Since(began); got.exit != ExitOK || took < 5*time.Second || took > 7*time.Second {
				t.Errorf("%s: exit %d after %v\n%s", command, got.exit, took, got.stderr)
			}
			if strings.Count(got.stderr, "trying again in") == 0 {
				t.Errorf("%s does not print the reason for the delay:\n%s", command, got.stderr)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		got := easelRun(t.Context(), shakyServer(t, &orders{}, nil, later[0]), "quote", "studio/any", "prompt=x")
		if got.exit != ExitOK || !strings.Contains(got.stdout, "0.05") {
			t.Errorf("exit %d\n%s", got.exit, got.stderr)
		}
	})
}

func TestFailedModelRequestReportsThatNothingWasOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down []error
		for range 99 {
			down = append(down, serverError(codes.Unavailable, "UPSTREAM_UNAVAILABLE", retryAfter(time.Second)))
		}
		o, began := &orders{}, time.Now()
		got := easelRun(t.Context(), shakyServer(t, o, down...), "generate", "studio/any", "prompt=x", "--timeout", "5s")
		if took := time.Since(began); got.exit != ExitRetry || len(o.got) != 0 || took < 3*time.Second || took > 5*time.Second {
			t.Errorf("exit %d after %v and %d orders", got.exit, took, len(o.got))
		}
		if !strings.Contains(got.stderr, nothingOrdered) || strings.Contains(got.stderr, "The order may exist") {
			t.Errorf("printed\n%s", got.stderr)
		}
	})
	got := easelRun(t.Context(), nil, "generate", "studio/any", "prompt=x", "--addr", "127.0.0.1:1")
	if got.exit != ExitRetry || !strings.Contains(got.stderr, nothingOrdered) || !strings.Contains(got.stderr, "--addr") {
		t.Errorf("without a server: exit %d\n%s", got.exit, got.stderr)
	}
}

func TestGenerateCommandReportsRetries(t *testing.T) {
	unknown := serverError(codes.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", retryAfter(12*time.Second))
	for form, waits := range map[string]string{"table": "no response to the order yet; waiting\n", "json": `{"note":"no response to the order yet; waiting"}`} {
		synctest.Test(t, func(t *testing.T) {
			got := easelRun(t.Context(), (&orders{errors: []error{unknown}}).serve(t), "generate", "studio/any", "-o", form)
			for _, part := range []string{"no answer yet (it failed); trying again in 1", waits, "the server answers again"} {
				if !strings.Contains(got.stderr, part) {
					t.Errorf("%s: %q is not in\n%s", form, part, got.stderr)
				}
			}
		})
	}
}
