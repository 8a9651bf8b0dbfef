package catalog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

const (
	picture = "studio/landscape"
	poem    = "studio/haiku"
)

var small = json.RawMessage(`{"prompt":"a quiet sea","size":"64x40"}`)

// bench contains a sandbox and a client for it.
type bench struct {
	*catalog.Client
	t    *testing.T
	box  *sandbox.Sandbox
	url  string
	key  string
	cred catalog.Credential
}

func open(t *testing.T, cfg sandbox.Config, key sandbox.KeyConfig) *bench {
	t.Helper()
	if cfg.Speed == 0 {
		cfg.Speed = 1000
	}
	box, err := sandbox.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(box)
	transport := catalog.NewTransportPools(catalog.NewTransport())
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = box.Close() // the sandbox must be closed before the server, because injected faults may still delay responses
		server.Close()
	})
	b := &bench{t: t, box: box, url: server.URL + sandbox.BasePath}
	if b.Client, err = catalog.New(catalog.Config{BaseURL: b.url, Transport: transport}); err != nil {
		t.Fatal(err)
	}
	if b.key, err = box.CreateKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	b.cred = catalog.Forwarded(catalog.NewSecret(b.key))
	return b
}

// placeOrder places an order, polls its generation until the state is terminal, and returns the
// generation.
func (b *bench) placeOrder(model, inputs string) catalog.Generation {
	b.t.Helper()
	order := catalog.Order{ModelID: model, Inputs: json.RawMessage(inputs), IdempotencyKey: fmt.Sprint(time.Now().UnixNano())}
	g, _, err := b.Post(b.t.Context(), b.cred, order)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.until(g.ID, catalog.State.Terminal)
}

func (b *bench) until(id string, reached func(catalog.State) bool) (g catalog.Generation) {
	b.t.Helper()
	proctest.Eventually(b.t, 20*time.Second, "the state is reached", func() bool {
		read, err := b.Generation(b.t.Context(), b.cred, id)
		if err != nil {
			b.t.Fatal(err)
		}
		g = read.Generation
		return reached(g.State)
	})
	return g
}

func (b *bench) download(id string) (*catalog.Content, []byte, error) {
	content, err := b.Content(b.t.Context(), b.cred, id, 0, "")
	if err != nil {
		return nil, nil, err
	}
	defer content.Body.Close()
	body, err := io.ReadAll(content.Body)
	return content, body, err
}

func everyDialect(t *testing.T, cfg sandbox.Config, key sandbox.KeyConfig, test func(*testing.T, sandbox.Dialect, *bench)) {
	for _, dialect := range sandbox.Dialects() {
		t.Run(dialect.Name, func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			cfg.Dialect = dialect
			test(t, dialect, open(t, cfg, key))
		})
	}
}

func TestAllCatalogDialectsYieldSameData(t *testing.T) {
	everyDialect(t, sandbox.Config{}, sandbox.KeyConfig{BalanceCents: 1000}, func(t *testing.T, d sandbox.Dialect, b *bench) {
		ctx := t.Context()
		account, err := b.Account(ctx, b.cred)
		if err != nil || account.BalanceCents == nil || *account.BalanceCents != 1000 || !strings.Contains(string(account.Extra), `"name":"sandbox"`) {
			t.Errorf("unexpected account: %+v, %v", account, err)
		}
		models, err := b.Models(ctx, b.cred)
		if at := slices.IndexFunc(models, func(m catalog.Model) bool { return m.ID == picture }); err != nil || len(models) != 5 || at < 0 ||
			models[at].Name != "Landscape" || models[at].Output != catalog.OutputFile || models[at].Description == "" {
			t.Errorf("unexpected models: %+v, %v", models, err)
		}
		quote, err := b.Quote(ctx, b.cred, picture, small)
		if err != nil || quote.PriceCents != 5 {
			t.Errorf("got the quote %+v, %v, want 5 cents", quote, err)
		}
		g := b.placeOrder(picture, string(small))
		if g.State != catalog.StateSucceeded || g.ModelID != picture || g.File == nil || g.Text != nil || g.CostCents == nil || *g.CostCents != 5 ||
			!strings.Contains(string(g.Inputs), `"prompt":"a quiet sea"`) {
			t.Errorf("unexpected generation: %+v", g)
		}
		if timed := d.Times != sandbox.TimeAbsent; g.CreateTime.IsZero() == timed || g.TerminalTime.IsZero() == timed {
			t.Errorf("got the create time %v and the terminal time %v", g.CreateTime, g.TerminalTime)
		}
		listed, err := b.List(ctx, b.cred, time.Time{})
		if err != nil || len(listed.Records) != 1 {
			t.Fatalf("got the list %+v, %v, want 1 record", listed, err)
		}
		if list := listed.Records; len(list) == 1 && !d.SparseList && list[0].Etag != g.Etag() {
			t.Errorf("the list has %+v, but the record is %+v", list[0], g)
		}
		content, body, err := b.download(g.ID)
		file := proctest.Fetch(t, http.MethodGet, b.url+"/generations/"+g.ID+"/content", "", "Authorization", "Bearer "+b.key)
		if err != nil || string(body) != file || content.ContentType != "image/png" || *content.Size != int64(len(body)) {
			t.Errorf("unexpected content: %+v, %d bytes, %v", content, len(body), err)
		}
		if err := b.Delete(ctx, b.cred, g.ID); err != nil {
			t.Error(err)
		}
		_, err = b.Generation(ctx, b.cred, g.ID)
		if catalog.KindOf(err) != catalog.KindNotFound || catalog.KindOf(b.Delete(ctx, b.cred, g.ID)) != catalog.KindNotFound {
			t.Errorf("a deleted generation: %v", err)
		}
	})
}

func TestAllCatalogDialectsYieldSameModel(t *testing.T) {
	everyDialect(t, sandbox.Config{}, sandbox.KeyConfig{}, func(t *testing.T, _ sandbox.Dialect, b *bench) {
		m, err := b.Model(t.Context(), b.cred, picture)
		if err != nil || m.ID != picture || len(m.Fields) != 9 {
			t.Fatalf("unexpected model: %+v, %v", m, err)
		}
		at := func(name string) catalog.InputField {
			return m.Fields[slices.IndexFunc(m.Fields, func(f catalog.InputField) bool { return f.Name == name })]
		}
		low, high := 1.0, 50.0
		steps := at("steps")
		steps.Description = ""
		no := false
		want := catalog.InputField{
			Name: "steps", DisplayName: "Steps", Type: catalog.FieldInteger, Required: &no,
			Default: catalog.Value("20"), Minimum: &low, Maximum: &high,
		}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Error(diff)
		}
		if prompt := at("prompt"); m.Fields[0].Name != "prompt" || prompt.Required == nil || !*prompt.Required || prompt.Type != catalog.FieldString || prompt.Minimum != nil {
			t.Errorf("prompt %+v", prompt)
		}
		if quality := at("quality"); fmt.Sprintf("%s %s", quality.Allowed, quality.Default) != `["draft" "standard" "fine"] "standard"` {
			t.Errorf("quality %+v", quality)
		}
		if _, err := b.Model(t.Context(), b.cred, "studio/none"); catalog.KindOf(err) != catalog.KindNotFound {
			t.Errorf("an unknown model: %v", err)
		}
	})
}

func TestAllCatalogDialectsYieldSameTextResult(t *testing.T) {
	everyDialect(t, sandbox.Config{}, sandbox.KeyConfig{BalanceCents: 1000}, func(t *testing.T, d sandbox.Dialect, b *bench) {
		g := b.placeOrder(poem, `{"prompt":"rain"}`)
		if g.State != catalog.StateSucceeded || g.Text == nil || strings.Count(strings.TrimSpace(*g.Text), "\n") != 2 || g.File != nil {
			t.Errorf("unexpected generation: %+v", g)
		}
		_, _, err := b.download(g.ID)
		if kind := catalog.KindOf(err); kind != catalog.KindNoContent {
			t.Errorf("downloading a text result returned %v", err)
		}
		listed, err := b.List(t.Context(), b.cred, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if list := listed.Records; len(list) == 1 && (list[0].File != nil || (list[0].Text == nil) != d.SparseList) {
			t.Errorf("list %+v", list)
		}
	})
}

func TestAllCatalogDialectsYieldSameErrors(t *testing.T) {
	everyDialect(t, sandbox.Config{RefundDelay: time.Second}, sandbox.KeyConfig{BalanceCents: 100, DailyCapCents: 20}, func(t *testing.T, d sandbox.Dialect, b *bench) {
		ctx := t.Context()
		g := b.placeOrder(picture, `{"prompt":"[fail]","size":"64x40"}`)
		if g.FailureMessage == "" || g.Text != nil || g.File != nil {
			t.Errorf("unexpected generation: %+v", g)
		}
		if d.Refund != sandbox.RefundSilent {
			b.until(g.ID, func(s catalog.State) bool { return s == catalog.StateRefunded })
		}
		_, err := b.Quote(ctx, b.cred, picture, json.RawMessage(`{"prompt":"x","steps":99}`))
		e := kind(t, err, catalog.KindInvalidInput)
		if d.Errors < sandbox.ErrorText && (len(e.Violations) != 1 || e.Violations[0].Field != "inputs.steps") {
			t.Errorf("got the violations %+v, want one for inputs.steps", e.Violations)
		}
		if e.Code != "INVALID_FIELD" || !strings.Contains(e.Message, "steps") {
			t.Errorf("got the code %q and the message %q", e.Code, e.Message)
		}
		dear := catalog.Order{ModelID: picture, Inputs: json.RawMessage(`{"prompt":"x","size":"1600x1000","quality":"fine"}`), IdempotencyKey: "dear"}
		_, _, err = b.Post(ctx, b.cred, dear)
		kind(t, err, catalog.KindInsufficientFunds, catalog.KindDailyCap)
		capped := 0
		for i := range 6 {
			_, _, err = b.Post(ctx, b.cred, catalog.Order{ModelID: picture, Inputs: small, IdempotencyKey: fmt.Sprint("n", i)})
			if catalog.KindOf(err) == catalog.KindDailyCap {
				capped++
			} else if err != nil {
				t.Error(err)
			}
		}
		if capped == 0 {
			t.Error("the daily cap was not reached")
		}
		_, err = b.Account(ctx, catalog.Forwarded(catalog.NewSecret("sandbox_live_unknown")))
		kind(t, err, catalog.KindCredentialRejected)
		_, err = b.Generation(ctx, b.cred, "gen_unknown")
		kind(t, err, catalog.KindNotFound)
		audit, err := b.box.Audit(ctx, b.key)
		if err = errors.Join(err, audit.Check()); err != nil {
			t.Error(err)
		}
	})
}

func kind(t *testing.T, err error, want ...catalog.Kind) *catalog.Error {
	t.Helper()
	var e *catalog.Error
	if !errors.As(err, &e) || !slices.Contains(want, e.Kind) {
		t.Fatalf("got %v, want %v", err, want)
	}
	return e
}

func TestReusedIdempotencyKeyIsDetectedInEveryDialect(t *testing.T) {
	everyDialect(t, sandbox.Config{}, sandbox.KeyConfig{BalanceCents: 1000}, func(t *testing.T, _ sandbox.Dialect, b *bench) {
		if _, _, err := b.Post(t.Context(), b.cred, catalog.Order{ModelID: picture, Inputs: small, IdempotencyKey: "k"}); err != nil {
			t.Fatal(err)
		}
		_, _, err := b.Post(t.Context(), b.cred, catalog.Order{ModelID: poem, Inputs: json.RawMessage(`{"prompt":"x"}`), IdempotencyKey: "k"})
		kind(t, err, catalog.KindKeyReused)
	})
}
