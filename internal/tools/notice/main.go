// Command notice writes the licences of all that the script of the API reference carries. The
// script's source map says which packages those are, and of which versions; npm installs them, and
// it takes the licence of each. After `make generate`:
//
//	GOWORK=off go run -C internal/tools ./notice
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const reference = "@scalar/api-reference"

// hidden are in the script without being in its source map: they came with parts that its
// makers had built before.
var hidden = []string{"@scalar/code-highlight@*", "highlight.js@11", "lowlight@3", "tailwindcss@4"}

const (
	pkg = "../../.build/tools/page/node_modules/" + reference // make generate installs it
	to  = "../../internal/rest/page/notice.txt"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "notice:", err)
		os.Exit(1)
	}
}

// run installs what the script carries for this alone, and writes the notice.
func run() error {
	carried, err := parts(pkg)
	if err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "easel-notice-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	if err := writeManifest(carried, filepath.Join(directory, "package.json")); err != nil {
		return err
	}
	npm := exec.Command("npm", "install", "--prefix", directory, "--ignore-scripts", "--legacy-peer-deps", "--silent", "--no-audit", "--no-fund", "--no-package-lock")
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm: %w\n%s", err, out)
	}
	text, err := notice(pkg, filepath.Join(directory, "node_modules"), carried)
	if err != nil {
		return err
	}
	return os.WriteFile(to, []byte(text), 0o644)
}

// writeManifest asks for each package under a name of its own, as there may be several
// versions of one.
func writeManifest(carried []string, to string) error {
	wanted := map[string]string{}
	for _, p := range carried {
		wanted[alias(p)] = "npm:" + p
	}
	text, err := json.Marshal(map[string]any{"private": true, "dependencies": wanted})
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

func alias(p string) string {
	return strings.Trim(strings.NewReplacer("/", "-", "@", "-", "*", "any").Replace(p), "-")
}

// part is one package of the script.
type part struct {
	name, version string
	holders       []string // its copyright lines
}

func notice(pkg, modules string, carried []string) (string, error) {
	byText := map[string][]part{}
	directories := []string{pkg}
	for _, p := range carried {
		directories = append(directories, filepath.Join(modules, alias(p)))
	}
	for _, directory := range directories {
		p, text, err := read(directory)
		if err != nil {
			return "", fmt.Errorf("%s: %w", directory, err)
		}
		byText[text] = append(byText[text], p)
	}
	var out strings.Builder
	out.WriteString("The page is drawn by a script that is not of Easel, and that carries the packages below.\n" +
		"Written by internal/tools/notice, from the licence that each package has with it.\n")
	texts := slices.SortedFunc(maps.Keys(byText), func(a, b string) int {
		return cmp.Or(len(byText[b])-len(byText[a]), strings.Compare(byText[a][0].name, byText[b][0].name))
	})
	for _, text := range texts {
		out.WriteString("\n" + strings.Repeat("=", 80) + "\n\n")
		for _, p := range byText[text] {
			fmt.Fprintf(&out, "%s %s\n", p.name, p.version)
			for _, holder := range p.holders {
				fmt.Fprintf(&out, "    %s\n", holder)
			}
		}
		out.WriteString("\n" + text)
	}
	return out.String(), nil
}

var installed = regexp.MustCompile(`\.pnpm/([^/]+?@\d[^/_(]*)[^/]*/node_modules/`)

// parts are the packages whose sources the script was made of, as "name@version", in order.
func parts(pkg string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(pkg, "dist", "browser", "standalone.js.map"))
	if err != nil {
		return nil, err
	}
	var sourceMap struct{ Sources []string }
	if err := json.Unmarshal(data, &sourceMap); err != nil {
		return nil, err
	}
	names := slices.Clone(hidden)
	for _, source := range sourceMap.Sources {
		if match := installed.FindStringSubmatch(source); match != nil {
			names = append(names, strings.ReplaceAll(match[1], "+", "/"))
		} else if strings.Contains(source, "node_modules/") {
			return nil, fmt.Errorf("of which package is %s?", source)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// read gives the package in a directory, and the text of its licence without the lines that
// differ from package to package.
func read(directory string) (p part, text string, err error) {
	data, err := os.ReadFile(filepath.Join(directory, "package.json"))
	if err != nil {
		return p, "", err
	}
	var manifest struct {
		Name, Version, License string
		Author                 any
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return p, "", err
	}
	p = part{name: manifest.Name, version: manifest.Version}
	licence, err := licenceOf(directory)
	if errors.Is(err, os.ErrNotExist) { // the manifest names it
		if manifest.License == "" {
			return p, "", errors.New("no licence")
		}
		p.holders = []string{"by " + author(manifest.Author)}
		return p, "Licence: " + manifest.License + "\n", nil
	}
	if err != nil {
		return p, "", err
	}
	p.holders, text = split(licence)
	return p, text, nil
}

func author(a any) string {
	if fields, ok := a.(map[string]any); ok {
		return fmt.Sprint(fields["name"])
	}
	return fmt.Sprint(a)
}

func licenceOf(directory string) (string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if name := strings.ToLower(entry.Name()); strings.HasPrefix(name, "licen") && !entry.IsDir() {
			text, err := os.ReadFile(filepath.Join(directory, entry.Name()))
			return string(text), err
		}
	}
	return "", os.ErrNotExist
}

var (
	holderLine = regexp.MustCompile(`(?i)^copyright\b.*(\(c\)|©|\d{4})`)
	titleLine  = regexp.MustCompile(`(?i)^\(?(the )?mit license( \(mit\))?\)?:?$`)
)

// split takes the copyright lines out of a licence, and fills the rest anew, so that licences
// that differ in their line ends alone are one.
func split(licence string) (holders []string, text string) {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(strings.ReplaceAll(licence, "\r", ""), "\n\n") {
		var words []string
		for line := range strings.Lines(paragraph) {
			line = strings.Trim(strings.TrimSpace(line), "*#")
			switch {
			case holderLine.MatchString(line):
				holders = append(holders, line)
			case !titleLine.MatchString(strings.TrimSpace(line)):
				words = append(words, strings.Fields(line)...)
			}
		}
		if len(words) > 0 {
			paragraphs = append(paragraphs, fill(words))
		}
	}
	return holders, strings.Join(paragraphs, "\n")
}

func fill(words []string) string {
	var out strings.Builder
	width := 0
	for _, word := range words {
		switch {
		case width == 0:
		case width+1+len(word) > 80:
			out.WriteByte('\n')
			width = 0
		default:
			out.WriteByte(' ')
			width++
		}
		out.WriteString(word)
		width += len(word)
	}
	return out.String() + "\n"
}
