package main

import (
	"encoding/json"
	"errors"
	"fmt"
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

// writePage installs what the script carries for this alone, and writes its notice.
func writePage() error {
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

// notice is the text for the script of a package, of which parts are installed in a directory of modules.
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
	return "The page is drawn by a script that is not of Easel, and that carries the packages below.\n" +
		"Written by internal/tools/notice, from the licence that each package has with it.\n" + list(byText), nil
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
