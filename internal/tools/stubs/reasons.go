package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// reasonTable is the content of clients/reasons.json: the error class of each reason, and whether a retry helps.
type reasonTable struct {
	text                    string
	Classes, Reasons, Codes json.RawMessage
	Watches                 json.RawMessage `json:"watch_ends"`
}

func readReasons(path string) (table reasonTable, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return table, err
	}
	table.text = string(text)
	err = json.Unmarshal(text, &table)
	return table, err
}

const (
	aboutClasses = "Classes of errors, and their meaning."
	aboutReasons = "The class of each reason, and whether a retry helps: yes, no, or if_told (only with RetryInfo)."
	aboutCodes   = "The same for each gRPC code, used if the reason is missing or unknown."
	aboutWatches = "Codes after which a new watch would fail in the same way."
)

// generatedReasons is the first line of each file that is generated from the table. The comment marker of the file's
// language precedes it.
const generatedReasons = "Code generated from clients/reasons.json by make generate. DO NOT EDIT.\n"

func goReasons(t reasonTable) string {
	return "// " + generatedReasons + "\npackage easelv1\n\n// Reasons is JSON: the class of error of each reason and code, and whether a repeat helps.\nconst Reasons = `" + t.text + "`\n"
}

func pythonReasons(t reasonTable) string {
	var text strings.Builder
	text.WriteString("# " + generatedReasons + "\"\"\"Error classes and retry rules of each reason.\"\"\"\n")
	for _, part := range []struct {
		name, kind, about string
		value             json.RawMessage
	}{
		{"CLASSES", "dict[str, str]", aboutClasses, t.Classes},
		{"REASONS", "dict[str, dict[str, str]]", aboutReasons, t.Reasons},
		{"CODES", "dict[str, dict[str, str]]", aboutCodes, t.Codes},
		{"WATCH_ENDS", "list[str]", aboutWatches, t.Watches},
	} {
		fmt.Fprintf(&text, "\n# %s\n%s: %s = %s\n", part.about, part.name, part.kind, part.value)
	}
	return text.String()
}

func typescriptReasons(t reasonTable) (code, types string) {
	const row = "{ readonly class: string; readonly again: \"yes\" | \"no\" | \"if_told\" }"
	return "// " + generatedReasons + "export const errorTable = " + strings.TrimSpace(t.text) + ";\n",
		"// " + generatedReasons + "export declare const errorTable: {\n" +
			"  /** " + aboutClasses + " */\n  readonly classes: Readonly<Record<string, string>>;\n" +
			"  /** " + aboutReasons + " */\n  readonly reasons: Readonly<Record<string, " + row + ">>;\n" +
			"  /** " + aboutCodes + " */\n  readonly codes: Readonly<Record<string, " + row + ">>;\n" +
			"  /** " + aboutWatches + " */\n  readonly watch_ends: readonly string[];\n};\n"
}

// javaReasons returns the generated Java files, keyed by path: one exception for each error class that at least one reason
// has, and a class that creates these exceptions.
func javaReasons(t reasonTable, directory string) map[string]string {
	const heading = "// " + generatedReasons + "package io.github.easelgrpc.easel;\n\n"
	var cases strings.Builder
	texts := map[string]string{}
	for _, row := range regexp.MustCompile(`"(\w+)": "([^"]*)"`).FindAllSubmatch(t.Classes, -1) {
		name, about := string(row[1]), string(row[2])
		if !strings.Contains(string(t.Reasons), `"class": "`+name+`"`) {
			continue // no error reason belongs to this class; its exception is part of the client's handwritten source
		}
		texts[filepath.Join(directory, name+"Exception.java")] = fmt.Sprintf(heading+`/** %s */
public final class %[2]sException extends EaselException {
  private static final long serialVersionUID = 1;

  %[2]sException(Failure failure) {
    super(failure);
  }
}
`, about, name)
		fmt.Fprintf(&cases, "      case \"%s\":\n        return new %[1]sException(failure);\n", name)
	}
	texts[filepath.Join(directory, "Classes.java")] = heading + `/** Creates the exception for an error class. */
final class Classes {
  private Classes() {}

  static EaselException of(String name, Failure failure) {
    switch (name) {
` + cases.String() + `      default:
        throw new IllegalArgumentException(name);
    }
  }
}
`
	return texts
}

// removeReasons removes the Java files of earlier runs. Otherwise, the file of a renamed error class would remain.
func removeReasons(directory string) error {
	paths, err := filepath.Glob(filepath.Join(directory, "*.java"))
	for _, path := range paths {
		text, readErr := os.ReadFile(path)
		if err = errors.Join(err, readErr); bytes.HasPrefix(text, []byte("// "+generatedReasons)) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}
