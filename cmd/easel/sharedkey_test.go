package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestASharedKeyFollowsItsFile(t *testing.T) { // faults X1, X2
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		path := proctest.File(t, "first\n")
		shared, err := openHeldKey(path, slog.New(slog.NewTextHandler(&logs, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := func(when, key string) {
			t.Helper()
			if got := shared.Get().Reveal(); got != key {
				t.Errorf("%s: the key is %s, want %s", when, got, key)
			}
		}
		replace := func(text string) { proctest.Write(t, path, text) }
		want("at first", "first")
		replace("other\r\n") // the new key is as long as the old one
		want("within the second", "first")
		time.Sleep(time.Second)
		want("after a second", "other")

		replace("")
		time.Sleep(time.Second)
		want("while the file is empty", "other")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		want("while there is no file", "other")
		if n := strings.Count(logs.String(), "upstream key unreadable"); n != 2 {
			t.Errorf("two reasons why a file is unreadable are logged %d times:\n%s", n, logs.String())
		}

		replace("third")
		time.Sleep(time.Second)
		want("when it is back", "third")
		for range 5 {
			time.Sleep(time.Second)
			want("while it stays", "third")
		}
		if n := strings.Count(logs.String(), "has changed"); n != 2 {
			t.Errorf("two changes are logged %d times:\n%s", n, logs.String())
		}
		if text := logs.String() + fmt.Sprintf("%v %+v %#v", shared.Get(), shared.Get(), shared.Get()); strings.Contains(text, "third") {
			t.Errorf("the key is printed:\n%s", text)
		}
	})
}
