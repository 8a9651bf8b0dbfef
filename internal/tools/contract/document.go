package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/easel-grpc/easel/internal/tools/image"
)

// document builds a page as Markdown.
type document struct {
	out   strings.Builder
	files []protoreflect.FileDescriptor
	// anchors contains the names of calls, messages and enums that have a heading.
	anchors map[string]bool
	// home is the file name of the page that contains the headings of calls, messages and enums. Links to the headings start
	// with home. Empty means that the headings are in this document.
	home string
	// inCalls contains the request and response messages, which are described in the sections of their calls.
	inCalls map[protoreflect.FullName]bool
}

func newDocument(files []protoreflect.FileDescriptor) *document {
	d := &document{files: files, anchors: map[string]bool{}, inCalls: map[protoreflect.FullName]bool{}}
	for _, file := range files {
		for message := range image.All(file.Messages()) {
			d.anchors[string(message.Name())] = true
		}
		for enum := range image.All(file.Enums()) {
			d.anchors[string(enum.Name())] = true
		}
	}
	for _, s := range d.allServices() {
		for m := range image.All(s.Methods()) {
			d.anchors[string(m.Name())] = true
			d.inCalls[m.Input().FullName()], d.inCalls[m.Output().FullName()] = true, true
		}
	}
	return d
}

func (d *document) printf(format string, values ...any) { fmt.Fprintf(&d.out, format, values...) }

// writeServices writes a table of all calls, and then a section for each call with its request and its response.
func (d *document) writeServices() {
	d.printf("# The contract\n\nThe calls and messages of `easel.v1`. `make generate` writes this page from the comments of\n" +
		"[`proto/easel/v1`](../proto/easel/v1), which are the contract.\n\n| call | REST | |\n|---|---|---|\n")
	for _, s := range d.allServices() {
		for m := range image.All(s.Methods()) {
			d.printf("| [%s](%s) | `%s` | %s |\n", m.Name(), d.anchor(string(m.Name())), route(m), nature(m))
		}
	}
	for _, s := range d.allServices() {
		d.printf("\n## %s\n\n%s\n", s.Name(), d.linkedComment(s))
		for m := range image.All(s.Methods()) {
			d.call(m)
		}
	}
}

func (d *document) allServices() (services []protoreflect.ServiceDescriptor) {
	for _, file := range d.files {
		services = slices.AppendSeq(services, image.All(file.Services()))
	}
	return services
}

func (d *document) call(m protoreflect.MethodDescriptor) {
	d.printf("\n### %s\n\n`%s` · %s\n\n%s\n", m.Name(), route(m), nature(m), d.linkedComment(m))
	d.message("####", m.Input())
	d.message("####", m.Output())
}

// writeSharedMessages writes a section for each message that is neither a request nor a response.
func (d *document) writeSharedMessages() {
	d.printf("\n## Messages\n")
	for _, file := range d.files {
		for m := range image.All(file.Messages()) {
			if !d.inCalls[m.FullName()] {
				d.message("###", m)
			}
		}
	}
}

func (d *document) message(level string, m protoreflect.MessageDescriptor) {
	d.printf("\n%s %s\n\n%s\n", level, m.Name(), d.linkedComment(m))
	if m.Fields().Len() == 0 {
		return
	}
	d.writeFields(m)
}

// writeFields writes a table with the first paragraph of each field's comment. The other paragraphs follow the table.
func (d *document) writeFields(m protoreflect.MessageDescriptor) {
	d.printf("\n| field | type | |\n|---|---|---|\n")
	var details strings.Builder
	for f := range image.All(m.Fields()) {
		summary, rest, more := strings.Cut(d.linkedComment(f), "\n\n")
		d.printf("| `%s` | %s | %s |\n", f.Name(), d.typeOf(f), formatCell(summary))
		if more {
			fmt.Fprintf(&details, "\n`%s`: %s\n", f.Name(), rest)
		}
	}
	d.out.WriteString(details.String())
}

func (d *document) enums() {
	d.printf("\n## Enums\n")
	for _, file := range d.files {
		for e := range image.All(file.Enums()) {
			d.printf("\n### %s\n\n%s\n", e.Name(), d.linkedComment(e))
			if e.Name() == reasons {
				d.printf("\n[Errors](errors.md) lists them.\n")
				continue
			}
			d.printf("\n| value | number | |\n|---|---|---|\n")
			for value := range image.All(e.Values()) {
				d.printf("| `%s` | %d | %s |\n", value.Name(), value.Number(), formatCell(d.linkedComment(value)))
			}
		}
	}
}

// typeOf returns the type of a field, preceded by "repeated" or "optional" as in the .proto file. For a field in a
// oneof, it adds the name of the oneof.
func (d *document) typeOf(f protoreflect.FieldDescriptor) string {
	name := f.Kind().String()
	var named protoreflect.Descriptor
	if f.Message() != nil {
		named = f.Message()
	} else if f.Enum() != nil {
		named = f.Enum()
	}
	if named != nil {
		name = string(named.Name())
		if d.anchors[name] {
			name = fmt.Sprintf("[%s](%s)", name, d.anchor(name))
		}
	}
	switch oneof := f.ContainingOneof(); {
	case f.IsList():
		return "repeated " + name
	case oneof != nil && oneof.IsSynthetic():
		return "optional " + name
	case oneof != nil:
		return fmt.Sprintf("%s, in `%s`", name, oneof.Name())
	}
	return name
}

func (d *document) anchor(name string) string { return d.home + "#" + strings.ToLower(name) }

// formatCell formats prose as one line, for a cell of a table.
func formatCell(prose string) string {
	return strings.ReplaceAll(strings.ReplaceAll(prose, "|", `\|`), "\n", " ")
}

// token matches the parts of a comment that need markup or an escape: code in backquotes, names with underscores or
// dots, names of calls, messages and codes, and the characters < and *.
var token = regexp.MustCompile("`[^`]*`|" + `\b[A-Za-z0-9]+(?:[_.][A-Za-z0-9]+)+\b|\b(?:[A-Z][a-z0-9]+){2,}\b|\b(?:OK|UNAUTHENTICATED|UNAVAILABLE|INTERNAL|ABORTED|UNIMPLEMENTED)\b|[<*]`)

// linkedComment returns a declaration's comment, with links to calls and messages.
func (d *document) linkedComment(of protoreflect.Descriptor) string {
	return d.markUp(image.Comment(of), of.Name())
}

// markUp adds markup to a text. Names of calls, messages and enums become links, except the name of the declaration
// that the text describes. Other names become code.
func (d *document) markUp(text string, about protoreflect.Name) string {
	return token.ReplaceAllStringFunc(text, func(word string) string {
		switch {
		case word[0] == '`':
			return word
		case word == "<" || word == "*":
			return `\` + word
		case word == string(about):
			return word
		case d.anchors[word]:
			return fmt.Sprintf("[%s](%s)", word, d.anchor(word))
		}
		return "`" + word + "`"
	})
}
