package server_test

import (
	_ "image/png"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestAListIsFilteredByModelAndStateWithoutALedger(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *stack, c caller) {
		for _, n := range []string{"a", "b", "c"} {
			wait(t, c, create(t, c, order(t, text, n, "a lake")).GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
		}
		create(t, c, order(t, picture, "d", "a lake"))
		for name, row := range map[string]struct {
			filter *easelv1.GenerationFilter
			want   int
		}{
			"all":               {&easelv1.GenerationFilter{}, 4},
			"a model":           {&easelv1.GenerationFilter{ModelId: picture}, 1},
			"a state":           {&easelv1.GenerationFilter{ModelId: text, States: []easelv1.State{easelv1.State_STATE_SUCCEEDED}}, 3},
			"states of nothing": {&easelv1.GenerationFilter{ModelId: text, States: []easelv1.State{easelv1.State_STATE_FAILED, easelv1.State_STATE_DELETED}}, 0},
		} {
			if got := listAll(t, c, row.filter, 2); len(got) != row.want {
				t.Errorf("%s: %d are listed, want %d", name, len(got), row.want)
			}
		}
		list := func(filter *easelv1.GenerationFilter, token string) (*easelv1.ListGenerationsResponse, error) {
			resp := &easelv1.ListGenerationsResponse{}
			return resp, c.call(t.Context(), "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{PageSize: 1, PageToken: token, Filter: filter}, resp)
		}
		page, err := list(&easelv1.GenerationFilter{ModelId: text}, "")
		if err != nil || page.GetNextPageToken() == "" {
			t.Fatal(page, err)
		}
		_, err = list(nil, page.GetNextPageToken())
		wantFields(t, wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", 400), "page_token")
		_, err = list(&easelv1.GenerationFilter{Owner: "studio"}, "")
		wantFields(t, wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", 400), "filter.owner")
	})
}

// listAll returns all pages of the list of a filter.
func listAll(t *testing.T, c caller, filter *easelv1.GenerationFilter, size int32) (all []*easelv1.Generation) {
	t.Helper()
	for req := (&easelv1.ListGenerationsRequest{PageSize: size, Filter: filter}); ; {
		resp := &easelv1.ListGenerationsResponse{}
		if err := c.call(t.Context(), "GenerationService/ListGenerations", req, resp); err != nil {
			t.Fatal(err)
		}
		all = append(all, resp.GetGenerations()...)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

func TestModelsAreListedAndReadWithTheirInputs(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, _ *stack, c caller) {
		list := &easelv1.ListModelsResponse{}
		if err := c.call(t.Context(), "ModelService/ListModels", &easelv1.ListModelsRequest{}, list); err != nil {
			t.Fatal(err)
		}
		if len(list.GetModels()) < 5 {
			t.Errorf("%d models", len(list.GetModels()))
		}
		one := &easelv1.GetModelResponse{}
		if err := c.call(t.Context(), "ModelService/GetModel", &easelv1.GetModelRequest{ModelId: picture}, one); err != nil {
			t.Fatal(err)
		}
		m := one.GetModel()
		if m.GetOutputKind() != easelv1.OutputKind_OUTPUT_KIND_FILE || m.GetModelId() != picture {
			t.Errorf("model %v", m)
		}
		fields := map[string]*easelv1.InputField{}
		for _, f := range m.GetInputFields() {
			fields[f.GetName()] = f
		}
		if f := fields["prompt"]; f.GetType() != easelv1.InputFieldType_INPUT_FIELD_TYPE_STRING || !f.GetRequired() {
			t.Errorf("prompt is %v", f)
		}
		if f := fields["steps"]; f.GetMinimum() != 1 || f.GetMaximum() != 50 || f.GetDefaultValue().GetNumberValue() != 20 {
			t.Errorf("steps is %v", f)
		}
		if f := fields["size"]; len(f.GetAllowedValues()) < 3 {
			t.Errorf("size is %v", f)
		}
	})
}
