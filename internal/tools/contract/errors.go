package main

import (
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// reasons is the enum that has a page of its own.
const reasons = protoreflect.Name("ErrorReason")

// The comment of a reason says its code, its HTTP status where that is special, what it means, and whether trying
// again helps.
var (
	firstSentence = regexp.MustCompile(`^([A-Z_]+)(?:, over (REST[^.;]*))?(; [^.]+)?\.\s+`)
	again         = regexp.MustCompile(`(?:^|\s)Again (does not help|may help|helps)[:;,.]?\s*([^\0]*)$`)
	helps         = map[string]string{"does not help": "no", "may help": "perhaps", "helps": "yes"}
)

// errorTable is what clients/reasons.json says of each reason.
type errorTable struct {
	Reasons map[string]struct{ Class string }
}

// writeErrors writes the page of all reasons.
func (d *document) writeErrors(table errorTable) error {
	d.home = "contract.md"
	e := d.enum(reasons)
	d.printf("# Errors\n\nWhat each reason means, and what to do. `make generate` writes this from the comments of\n"+
		"[`error.proto`](../proto/easel/v1/error.proto). [Clients](clients.md#errors) has how a program reads them, and\n"+
		"each client has the error's class: `BudgetExceeded` in Python and TypeScript, `*BudgetExceededError` in Go, `BudgetExceededException` in Java.\n\n%s\n\n"+
		"| reason | class | code | over REST | what it means | again | what to do |\n|---|---|---|---|---|---|---|\n", d.prose(e))
	for value := range all(e.Values()) {
		if value.Number() == 0 {
			continue
		}
		if err := d.reason(value, table.Reasons[string(value.Name())].Class); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) enum(name protoreflect.Name) protoreflect.EnumDescriptor {
	for _, file := range d.files {
		if e := file.Enums().ByName(name); e != nil {
			return e
		}
	}
	return nil
}

func (d *document) reason(value protoreflect.EnumValueDescriptor, class string) error {
	text := strings.Join(strings.Fields(value.ParentFile().SourceLocations().ByDescriptor(value).LeadingComments), " ")
	first, tries := firstSentence.FindStringSubmatch(text), again.FindStringSubmatch(text)
	if first == nil || tries == nil {
		return fmt.Errorf("the comment of %s does not say its code first and whether trying again helps last: %s", value.Name(), text)
	}
	meaning := strings.TrimSuffix(strings.TrimPrefix(text, first[0]), tries[0])
	rest := strings.TrimPrefix(strings.TrimPrefix(first[2], "REST"), " ")
	d.printf("| `%s` | `%s` | %s | %s | %s | %s | %s |\n", value.Name(), class, d.marked("`"+first[1]+"`"+first[3], value.Name()),
		strings.Replace(rest, "alone", "REST alone", 1), cell(d.marked(meaning, value.Name())), helps[tries[1]], cell(d.marked(tries[2], value.Name())))
	return nil
}
