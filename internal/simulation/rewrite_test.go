package simulation

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// edit describes a replacement of source text in one function. The function may be in any file of the package, and must
// contain the replaced text, old, exactly once.
type edit struct {
	pkg      string // directory of the package
	function string // "Function" or "Type.Method"
	old, new string
}

// addition returns an edit that adds a file to a package. Other edits for the same seeded bug can use the declarations in
// the file.
func addition(pkg, source string) edit { return edit{pkg: pkg, new: source} }

// apply applies the edit to the source tree at root without writing files. The map changed contains the new source of each
// file that was changed so far, keyed by path. apply adds its result to this map.
func (e edit) apply(root string, changed map[string]string) error {
	dir := filepath.Join(root, e.pkg)
	if e.function == "" {
		changed[filepath.Join(dir, "seededbug.go")] = "package " + filepath.Base(dir) + "\n\n" + e.new
		return nil
	}
	files, err := readSources(dir, changed)
	if err != nil {
		return err
	}
	places := 0
	for path, text := range files {
		start, end := e.findFunction(text)
		if n := strings.Count(text[start:end], e.old); n > 0 {
			places += n
			changed[path] = text[:start] + strings.Replace(text[start:end], e.old, e.new, 1) + text[end:]
		}
	}
	if places != 1 {
		return fmt.Errorf("%s: %s: %d places match %q, want 1; update the list of bugs", e.pkg, e.function, places, e.old)
	}
	return nil
}

// findFunction returns the start and end offsets of the function in a source file. Both are zero if the file does not
// contain the function. The source must be formatted by gofmt, because findFunction expects a function to end on its first
// line, or at the next line that consists only of a closing brace.
func (e edit) findFunction(text string) (start, end int) {
	name := e.function
	if receiver, method, ok := strings.Cut(e.function, "."); ok {
		name = `\(\w+ \*?` + receiver + `(?:\[\w+\])?\) ` + method
	}
	at := regexp.MustCompile(`(?ms)^func ` + name + `[\[(](?:[^\n]*\}$|.*?^\}$)`).FindStringIndex(text)
	if at == nil {
		return 0, 0
	}
	return at[0], at[1]
}

// readSources returns the source of each file in a package, keyed by path. If changed contains a source for a file,
// readSources returns that source. Otherwise, it reads the file from dir, the package's directory.
func readSources(dir string, changed map[string]string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(path, "_test.go") {
			files[path] = cmp.Or(changed[path], string(text))
		}
	}
	return files, nil
}
