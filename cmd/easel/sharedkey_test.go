package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestSharedAPIKeyIsReloadedFromFile(t *testing.T) {
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
		replace("other\r\n")
		time.Sleep(time.Second)
		want("a second after a change", "other")

		replace("")
		time.Sleep(time.Second)
		want("while the file is empty", "other")

		replace("third")
		time.Sleep(time.Second)
		want("after the file was empty", "third")
		if text := logs.String() + fmt.Sprintf("%v %+v %#v", shared.Get(), shared.Get(), shared.Get()); strings.Contains(text, "third") {
			t.Errorf("the key is printed:\n%s", text)
		}
	})
}
