package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/terminal"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// compactJSON writes a message as one line, the same line every time. The contract's
// own JSON form is used, with the fields that are false or empty.
func compactJSON(m proto.Message) string {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		text = fmt.Appendf(nil, `{"error":{"message":%q}}`, err)
	}
	var line bytes.Buffer
	_ = json.Compact(&line, text) // protojson varies its spaces on purpose; it is always valid JSON
	return terminal.Sanitize(line.String())
}

// jsonLine writes a value as one line.
func jsonLine(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(`{"error":{"message":"this can't be written as JSON"}}`)
	}
	return terminal.Sanitize(string(text))
}

// JSONText writes a value on several lines.
func JSONText(v any) string {
	var text bytes.Buffer
	_ = json.Indent(&text, []byte(jsonLine(v)), "", "  ") // valid, see above
	return text.String()
}

// printJSON writes a message as the whole answer of a command.
func (s *session) printJSON(m proto.Message) {
	var text bytes.Buffer
	_ = json.Indent(&text, []byte(compactJSON(m)), "", "  ") // valid, see above
	s.PrintText(text.String())
}

// answer prints the result of a command in the form that was asked for.
func (s *session) answer(m proto.Message, brief string, table func()) {
	switch {
	case s.json:
		s.printJSON(m)
	case s.quiet:
		s.PrintText(brief)
	default:
		table()
	}
}

// noteJSON writes a remark where errors and remarks are JSON lines.
func (s *session) noteJSON(text string) {
	s.Tell(jsonLine(map[string]string{"note": text}))
}

// printFields writes names and values in two columns. Fields without a value are left out.
func (s *session) printFields(fields [][2]string) {
	fields = slices.DeleteFunc(fields, func(f [2]string) bool { return f[1] == "" })
	width := 0
	for _, f := range fields {
		width = max(width, len(f[0]))
	}
	for _, f := range fields {
		s.Print(s.OutStyle.Paint(terminal.Dim, fmt.Sprintf("%-*s", width, f[0])) + "  " + f[1])
	}
}

// cell is one field of a table, and its colour.
type cell struct{ text, colour string }

// printTable writes rows in columns below their heads. Columns that are empty in every
// row are left out.
func (s *session) printTable(heads []string, rows [][]cell) {
	widths := make([]int, len(heads))
	for _, row := range rows {
		for i, c := range row {
			if c.text != "" {
				widths[i] = max(widths[i], len(heads[i]), terminal.Width(c.text))
			}
		}
	}
	head := make([]cell, len(heads))
	for i, text := range heads {
		head[i] = cell{text, terminal.Dim}
	}
	for _, row := range append([][]cell{head}, rows...) {
		s.Print(s.tableLine(row, widths))
	}
}

func (s *session) tableLine(row []cell, widths []int) string {
	var line strings.Builder
	pending := 0 // spaces that are only written where something follows them
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		if c.text != "" {
			line.WriteString(strings.Repeat(" ", pending))
			line.WriteString(s.OutStyle.Paint(c.colour, c.text))
			pending = 0
		}
		pending += widths[i] - terminal.Width(c.text) + 2
	}
	return line.String()
}
