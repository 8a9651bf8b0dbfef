package service

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

func FuzzInputsReachTheCatalogWithTheirValues(f *testing.F) { // I2
	for _, seed := range []string{
		`{}`, `{"prompt":"<ü\u2028&>","n":[1,-0.5,1e-7,true,null,{"":{}}]}`, `{"n":9007199254740991}`, `{"n":9007199254740993}`, `{"n":1e300}`,
		`{"n":1e-320}`, `{"a\u0000b":"\u007f"}`, strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64), strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		inputs := &structpb.Struct{}
		if protojson.Unmarshal([]byte(text), inputs) != nil {
			return
		}
		sent, err := inputsBytes(inputs, "")
		if err != nil {
			if reason(err) != "INVALID_REQUEST" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		var got any
		decoder := json.NewDecoder(bytes.NewReader(sent))
		if err := decoder.Decode(&got); err != nil || checkInputsJSON(string(sent)) != nil {
			t.Fatalf("%q became %q: %v, %v", text, sent, err, checkInputsJSON(string(sent)))
		}
		if diff := cmp.Diff(any(inputs.AsMap()), got); diff != "" {
			t.Errorf("%q became %q: %s", text, sent, diff)
		}
	})
}

func FuzzACallersFileLetsInNobodyElse(f *testing.F) {
	digits := strings.Repeat("ab", 32)
	f.Add("billing sha256:"+digits+"\n", "token")
	f.Add("# nobody\n\n", "")
	f.Add("billing sha256:"+digits[1:], "billing")
	f.Add("a b c", "\x00")
	f.Add("billing token-in-the-clear", "token-in-the-clear")
	f.Fuzz(func(t *testing.T, text, token string) {
		list, err := parseCallers([]byte(text))
		// The words of the refusals may stand in a file too.
		if err != nil && len(token) > 8 && strings.Contains(text, token) && strings.Contains(err.Error(), token) &&
			!strings.Contains("line : want a name and sha256:<64 hexadecimal digits> the token's hash is not ", token) {
			t.Errorf("the error repeats the file: %v", err)
		}
		file := filepath.Join(t.TempDir(), "callers")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		callers, loaded := LoadCallers(file, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if (loaded == nil) != (err == nil && len(list.all) > 0) {
			t.Fatalf("%q: %v, %v", text, err, loaded)
		}
		if loaded != nil {
			return
		}
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
		if name, ok := callers.Lookup(token); ok && !strings.Contains(strings.ToLower(text), "sha256:"+sum) {
			t.Errorf("%q lets in %q as %q", text, token, name)
		}
	})
}
