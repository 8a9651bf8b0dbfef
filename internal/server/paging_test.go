package server_test

import (
	_ "image/png"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// listAll reads all pages of a filtered list and returns the generations.
func listAll(t *testing.T, c caller, filter *easelv1.GenerationFilter, size int32) (all []*easelv1.Generation) {
	t.Helper()
	for req := (&easelv1.ListGenerationsRequest{PageSize: size, Filter: filter}); ; {
		resp, err := listPage(t, c, req)
		if err != nil {
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
