package watch

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestIncompleteResponseKeepsModelAndCreationTime(t *testing.T) {
	whole := catalog.Generation{ID: "g1", ModelID: "studio/haiku", State: catalog.StateQueued, CreateTime: time.Unix(1_800_000_000, 0)}
	e := &generation{state: whole}
	if got := e.addMissing(catalog.Generation{ID: "g1", State: catalog.StateRunning}); got.ModelID != whole.ModelID || !got.CreateTime.Equal(whole.CreateTime) {
		t.Errorf("the completed generation is %+v", got)
	}
}
