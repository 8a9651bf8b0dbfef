package service

import (
	"fmt"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func unknownUpdate(n int) *watch.Update {
	return &watch.Update{Generation: catalog.Generation{ID: fmt.Sprint("g", n)}, Memo: new(watch.Memo), Initial: true}
}

func TestForeignGenerationsCostTheLedgerFewQuestions(t *testing.T) {
	var u unknowns
	began := time.Now()
	for n := range 3 * maxUnknown {
		u.note(unknownUpdate(n), began)
	}
	asked, questions := 0, 0
	for now := began; !u.askAt.IsZero(); now = u.askAt {
		due := u.due(now)
		if len(due) > 0 {
			questions++
		}
		for _, update := range due {
			asked++
			u.note(update, now)
		}
		if !u.askAt.IsZero() && u.askAt.Sub(now) < askAgainAfter && len(due) > 0 {
			t.Fatalf("the next question is %v later", u.askAt.Sub(now))
		}
	}
	if len(u.all) > 0 || questions != 10 || asked != 10*maxUnknown {
		t.Errorf("%d questions about %d, and %d are left", questions, asked, len(u.all))
	}
}

func TestAGenerationThatIsKnownByNowIsNoInitialOne(t *testing.T) {
	var u unknowns
	for n := range maxUnknown + 1 {
		u.note(unknownUpdate(n), time.Now())
	}
	if forgotten := unknownUpdate(0); u.known(forgotten) != forgotten {
		t.Error("the oldest is not forgotten")
	}
	late := u.known(unknownUpdate(1))
	if late.Generation.ID != "g1" || late.Initial || late.Memo != nil || len(u.all) != maxUnknown-1 {
		t.Errorf("it is %+v, and %d are left", late, len(u.all))
	}
}
