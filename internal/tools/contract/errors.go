package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/easel-grpc/easel/internal/tools/image"
)

// reasons is the name of the enum of error reasons, which is documented on its own page.
const reasons = protoreflect.Name("ErrorReason")

// Patterns for the comments on error reasons in the contract. A comment begins with the reason's gRPC code. The HTTP status
// follows if it is not the usual status for that code. The comment then describes the reason, and at its end states whether a
// retry may succeed.
var (
	firstSentence = regexp.MustCompile(`^([A-Z_]+)(?: \(((?:only over REST)?[^.;)]*)\))?(; [^.]+)?\.\s+`)
	retryable     = regexp.MustCompile(`(?:^|\s)(Not retryable|Retryable)[:.]\s*([^\0]*)$`)
	answers       = map[string]string{"Not retryable": "no", "Retryable": "yes"}
)

// errorTable is the part of clients/reasons.json that defines the class of each reason, and the meaning of each class.
type errorTable struct {
	Classes map[string]string
	Reasons map[string]struct{ Class string }
}

// writeErrors writes the page that describes all reasons.
func (d *document) writeErrors(table errorTable) error {
	d.home = "contract.md"
	e := d.enum(reasons)
	d.printf("# Errors\n\nThis page lists the reasons for errors. `make generate` writes this page from the comments of\n"+
		"[`error.proto`](../proto/easel/v1/error.proto). [The page for callers](callers.md#errors) describes how a program reacts.\n"+
		"In each client, each kind of error has a class of its own: `BudgetExceeded` in Python and TypeScript, `*BudgetExceededError` in Go, `BudgetExceededException` in Java.\n\n%s\n\n"+
		"| reason | class | code | over REST | meaning | retryable | remedy |\n|---|---|---|---|---|---|---|\n", d.linkedComment(e))
	for value := range image.All(e.Values()) {
		if value.Number() == 0 {
			continue
		}
		if err := d.reason(value, table.Reasons[string(value.Name())].Class); err != nil {
			return err
		}
	}
	d.ownClasses(table)
	return nil
}

// ownClasses writes a table of the error classes without a reason. Only the client itself creates errors of these classes.
func (d *document) ownClasses(table errorTable) {
	for _, reason := range table.Reasons {
		delete(table.Classes, reason.Class)
	}
	d.printf("\nErrors of the following classes have no reason, because the client itself creates them:\n\n| class | meaning |\n|---|---|\n")
	for _, class := range slices.Sorted(maps.Keys(table.Classes)) {
		d.printf("| `%s` | %s |\n", class, formatCell(table.Classes[class]))
	}
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
	text := strings.Join(strings.Fields(image.Comment(value)), " ")
	first, tries := firstSentence.FindStringSubmatch(text), retryable.FindStringSubmatch(text)
	if first == nil || tries == nil {
		return fmt.Errorf("the comment of %s must begin with its code, and state at its end whether it is retryable: %s", value.Name(), text)
	}
	meaning := strings.TrimSuffix(strings.TrimPrefix(text, first[0]), tries[0])
	rest := strings.Replace(first[2], "only over REST", "REST only", 1)
	d.printf("| `%s` | `%s` | %s | %s | %s | %s | %s |\n", value.Name(), class, d.markUp("`"+first[1]+"`"+first[3], value.Name()),
		rest, formatCell(d.markUp(meaning, value.Name())), answers[tries[1]], formatCell(d.markUp(tries[2], value.Name())))
	return nil
}
