package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// allTenants returns all tenants that use the replicas, including the operator and the guest.
func (w *world) allTenants() []*tenant {
	if w.operator == nil {
		return w.tenants
	}
	return append(slices.Clone(w.tenants), w.operator, w.guest)
}

// operate acts as the operator: it periodically lists everything, deletes a generation, and places an order.
func (c *caller) operate() {
	for round := 0; !c.over() && c.world.history.Since() < c.world.plan.Length; round++ {
		c.sleep(c.about(c.world.plan.Length / 6))
		c.world.orderPast(round)
		c.oversee()
		switch round % 3 {
		case 0:
			c.then(c.essay(false), c.remove)
		case 1:
			c.everything(30 * time.Second)
		}
	}
}

// orderPast places an order directly in the catalog, under the shared API key and without Easel. Faults affect this
// order too.
func (w *world) orderPast(n int) {
	client, cred := w.pastEasel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _, _ = client.Post(ctx, cred, catalog.Order{
		ModelID: "studio/haiku", Inputs: json.RawMessage(fmt.Sprintf(`{"prompt":"held. %d"}`, n)), IdempotencyKey: fmt.Sprint(promises.Past, n),
	})
}

// pastEasel returns a client of the catalog that uses the shared API key without Easel.
func (w *world) pastEasel() (*catalog.Client, catalog.Credential) {
	client, err := catalog.New(catalog.Config{BaseURL: "http://catalog" + sandbox.BasePath, AllowInsecure: true, Transport: cutTransport{handlerTransport{w.box}}})
	if err != nil {
		panic(err) // cannot fail for this configuration
	}
	return client.Polls(), catalog.Forwarded(catalog.NewSecret(w.account.key))
}

// cutTransport is a transport to a handler. If the handler aborts the connection, it returns an error.
type cutTransport struct{ http.RoundTripper }

func (c cutTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the connection was cut")
		}
	}()
	return c.RoundTripper.RoundTrip(r)
}

// listing is a complete list that the operator has received.
type listing struct {
	since, at time.Duration
	all       map[string]*easelv1.Generation
}

// oversee lists everything and deletes a generation of another owner. It does not delete a generation with a
// file, because downloaded files are compared with the catalog's files at the end.
func (c *caller) oversee() {
	since := c.world.history.Since()
	all, err := c.listAll(&easelv1.ListGenerationsRequest{PageSize: 7})
	if err != nil {
		c.failed(promises.Event{Process: c.endpoint().replica.current().name}, err)
		c.switchEndpoint()
		return
	}
	c.world.noteList(listing{since, c.world.history.Since(), all})
	for id, g := range all {
		if g.GetOwner() != promises.Operator && (g.GetModelId() == "studio/haiku" || g.GetModelId() == "studio/essay") {
			c.removeOf(g.GetOwner(), id)
			return
		}
	}
}

// removeOf deletes another owner's generation, which an operator may do.
func (c *caller) removeOf(owner, id string) {
	ctx, cancel := context.WithTimeout(c.world.ctx, 20*time.Second)
	defer cancel()
	_, err := c.endpoint().grpc.DeleteGeneration(c.endpoint().signed(ctx), &easelv1.DeleteGenerationRequest{GenerationId: id, Force: true})
	switch status.Code(err) {
	case codes.OK:
		c.note(promises.Event{Kind: promises.Deleted, Generation: id, Text: "of " + owner})
	case codes.NotFound, codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled:
	default:
		c.note(promises.Event{Kind: promises.Leaked, Generation: id, Text: fmt.Sprintf("an operator's deletion of %q's generation: %v", owner, err)})
	}
}

func (w *world) noteList(l listing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists = append(w.lists, l)
}

// listAll reads all pages of a list and returns the generations by ID.
func (c *caller) listAll(req *easelv1.ListGenerationsRequest) (map[string]*easelv1.Generation, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all := map[string]*easelv1.Generation{}
	for {
		resp, err := c.endpoint().grpc.ListGenerations(c.endpoint().signed(ctx), req)
		if err != nil {
			return nil, err
		}
		for _, g := range resp.GetGenerations() {
			all[g.GetGenerationId()] = g
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// inspection contains the responses to the calls at the end of a run.
type inspection struct {
	all     listing                                   // the operator's list
	listed  []catalog.Version                         // the catalog's own list, read before the operator's list
	usage   map[string]*easelv1.UsageRow              // the operator's usage report by owner
	own     map[string]*easelv1.UsageRow              // the owners' usage reports by owner
	labels  map[string]string                         // each owner's value of the label named who
	labeled map[string]map[string]*easelv1.Generation // each owner's list, filtered by the owner's label
}

// inspect sends the calls at the end of a run to the first replica.
func (w *world) inspect() (seen inspection) {
	ops := w.caller(w.operator, "end")
	ops.at = 0
	client, cred := w.pastEasel()
	listed, err := client.List(context.Background(), cred, time.Now())
	if err != nil {
		w.problem("the catalog has no list in the end: %v", err)
	} else {
		seen.listed = listed.Records
	}
	for range 10 { // repeated, because an attempt may use a connection that is already closed
		seen.all.since = w.history.Since()
		if seen.all.all, err = ops.listAll(&easelv1.ListGenerationsRequest{PageSize: 50}); err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	if err != nil {
		w.problem("the operator has no list in the end: %v", err)
		return seen
	}
	seen.all.at = w.history.Since()
	seen.usage = w.usage(ops, easelv1.UsageDimension_USAGE_DIMENSION_OWNER)
	seen.own, seen.labels, seen.labeled = map[string]*easelv1.UsageRow{}, map[string]string{}, map[string]map[string]*easelv1.Generation{}
	for _, t := range append(slices.Clone(w.tenants), w.guest) {
		c := w.caller(t, "end")
		c.at = 0
		for _, row := range w.usage(c) {
			seen.own[t.name] = row
		}
		for _, g := range seen.all.all {
			if who := g.GetLabels()["who"]; g.GetOwner() == t.name && who > seen.labels[t.name] {
				seen.labels[t.name] = who
			}
		}
		if seen.labeled[t.name], err = c.listAll(&easelv1.ListGenerationsRequest{
			PageSize: 3, Filter: &easelv1.GenerationFilter{Labels: map[string]string{"who": seen.labels[t.name]}},
		}); err != nil {
			w.problem("%s has no list of a label in the end: %v", t.name, err)
		}
	}
	return seen
}

// verify compares the ledger with its journal, as 'easel ledger verify' does.
func (w *world) verify() (differences []string) {
	looked, err := w.replicas[0].current().ledger.Verify(context.Background(), func(d ledger.Difference) { differences = append(differences, d.String()) })
	if err != nil || looked.Orders == 0 {
		w.problem("the ledger was not verified in the end, but for %d orders: %v", looked.Orders, err)
	}
	return differences
}

// usage returns a caller's usage report as a map from owner to row. The report is grouped by the given dimensions.
func (w *world) usage(c *caller, by ...easelv1.UsageDimension) map[string]*easelv1.UsageRow {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	resp, err := easelv1.NewAccountServiceClient(c.endpoint().conn).ListUsage(c.endpoint().signed(ctx), &easelv1.ListUsageRequest{GroupBy: by})
	if err != nil {
		w.problem("%s has no usage in the end: %v", c.tenant.name, err)
	}
	rows := map[string]*easelv1.UsageRow{}
	for _, row := range resp.GetRows() {
		rows[row.GetOwner()] = row
	}
	return rows
}

// labelsOf returns the labels of an attempt. An order keeps the labels of its first attempt.
func (c *caller) labelsOf(o order, attempt int) map[string]string {
	if !c.world.plan.Ledger {
		return nil
	}
	return map[string]string{"who": c.name, "attempt": fmt.Sprint(attempt)}
}
