package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Etag is a digest of all that a caller can see change, without the times at which
// we looked. It depends on the record alone, so every replica computes the same.
func (g Generation) Etag() string {
	g.ObserveTime = time.Time{}
	text := etagTexts.Get().(*[]byte)
	defer etagTexts.Put(text)
	*text = appendGeneration((*text)[:0], g)
	sum := sha256.Sum256(*text)
	if cap(*text) > maxShared {
		*text = nil
	}
	return hex.EncodeToString(sum[:12])
}

// etagTexts are what digests are made of, used again unless they were long.
var etagTexts = sync.Pool{New: func() any { return new([]byte) }}

// appendGeneration writes what json.Marshal makes of a generation, byte for byte, in 1.3 instead
// of 3.1 µs (BenchmarkReadOne).
func appendGeneration(out []byte, g Generation) []byte {
	out = appendText(append(out, `{"ID":`...), g.ID)
	out = appendText(append(out, `,"ModelID":`...), g.ModelID)
	out = strconv.AppendUint(append(out, `,"State":`...), uint64(g.State), 10)
	out = appendText(append(out, `,"Status":`...), g.Status)
	out = appendMembers(append(out, `,"Inputs":`...), g.Inputs)
	out = appendCount(append(out, `,"CostCents":`...), g.CostCents)
	out = appendFile(append(out, `,"File":`...), g.File)
	out = append(out, `,"Text":`...)
	if g.Text == nil {
		out = append(out, "null"...)
	} else {
		out = appendText(out, *g.Text)
	}
	out = appendText(append(out, `,"FailureMessage":`...), g.FailureMessage)
	out = appendTime(append(out, `,"CreateTime":`...), g.CreateTime)
	out = appendTime(append(out, `,"TerminalTime":`...), g.TerminalTime)
	out = appendTime(append(out, `,"ObserveTime":`...), g.ObserveTime)
	out = appendMembers(append(out, `,"Extra":`...), g.Extra)
	return append(out, '}')
}

func appendFile(out []byte, f *File) []byte {
	if f == nil {
		return append(out, "null"...)
	}
	out = appendText(append(out, `{"ContentType":`...), f.ContentType)
	out = appendCount(append(out, `,"SizeBytes":`...), f.SizeBytes)
	return append(out, '}')
}

func appendCount(out []byte, n *int64) []byte {
	if n == nil {
		return append(out, "null"...)
	}
	return strconv.AppendInt(out, *n, 10)
}

func appendTime(out []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(out, '"'), time.RFC3339Nano), '"')
}

// appendText leaves to encoding/json what has to be escaped, and what may have to.
func appendText(out []byte, text string) []byte {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return appendAny(out, text)
		}
	}
	return append(append(append(out, '"'), text...), '"')
}

func appendMembers(out []byte, members map[string]any) []byte {
	if members == nil {
		return append(out, "null"...)
	}
	var room [16]string
	names := room[:0]
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	out = append(out, '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendValue(append(appendText(out, name), ':'), members[name])
	}
	return append(out, '}')
}

// appendValue writes a value of the types of Extra.
func appendValue(out []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return appendText(out, v)
	case json.Number:
		return append(out, v...)
	case map[string]any:
		return appendMembers(out, v)
	}
	return appendAny(out, value)
}

func appendAny(out []byte, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic("catalog: a generation that was read from JSON can't be written as JSON: " + err.Error())
	}
	return append(out, text...)
}
