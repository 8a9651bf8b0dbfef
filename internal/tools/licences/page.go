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

// script is the directory of the npm package that contains the API page's script. make generate installs this package.
var script = filepath.Join(".build", "tools", "page", "node_modules", "@scalar", "api-reference")

// unmapped contains packages in the script that are missing from its source map, because they are part of prebuilt components.
var unmapped = []string{"@scalar/code-highlight@*", "highlight.js@11", "lowlight@3", "tailwindcss@4"}

// addPage installs the packages of the API page's script in a temporary directory, and adds their licenses to licenses.
func addPage(licenses texts) error {
	names, err := packages()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "easel-licences-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	wanted := map[string]string{} // packages by alias, because npm can install several versions of a package only under different names
	for i, name := range names {
		wanted[fmt.Sprint("p", i)] = "npm:" + name
	}
	manifest, err := json.Marshal(map[string]any{"private": true, "dependencies": wanted})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "package.json"), manifest, 0o600)
	}
	if err != nil {
		return err
	}
	npm := exec.Command("npm", "install", "--prefix", dir, "--ignore-scripts", "--legacy-peer-deps", "--silent", "--no-audit", "--no-fund", "--no-package-lock")
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm: %w\n%s", err, out)
	}
	err = licenses.addPackage(script)
	for alias := range wanted {
		err = errors.Join(err, licenses.addPackage(filepath.Join(dir, "node_modules", alias)))
	}
	return err
}

var source = regexp.MustCompile(`\.pnpm/([^/]+?@\d[^/_(]*)[^/]*/node_modules/`)

// packages returns the packages in the script's source map and the packages in unmapped, each as NAME@VERSION.
func packages() ([]string, error) {
	data, err := os.ReadFile(filepath.Join(script, "dist", "browser", "standalone.js.map"))
	if err != nil {
		return nil, err
	}
	var sourceMap struct{ Sources []string }
	if err := json.Unmarshal(data, &sourceMap); err != nil {
		return nil, err
	}
	names := slices.Clone(unmapped)
	for _, path := range sourceMap.Sources {
		if match := source.FindStringSubmatch(path); match != nil {
			names = append(names, strings.ReplaceAll(match[1], "+", "/"))
		} else if strings.Contains(path, "node_modules/") {
			return nil, fmt.Errorf("no package in the path %s", path)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// addPackage adds the license of an installed package. If the package has no license file, its package.json must name a
// license.
func (t texts) addPackage(dir string) error {
	var manifest struct {
		Name, Version, License string
		Author                 any
	}
	data, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err == nil {
		err = json.Unmarshal(data, &manifest)
	}
	if err != nil {
		return err
	}
	name := manifest.Name + " " + manifest.Version
	files, err := filepath.Glob(filepath.Join(dir, "[Ll][Ii][Cc][Ee][Nn]*"))
	switch {
	case err != nil || len(files) == 0 && manifest.License == "":
		return errors.Join(err, fmt.Errorf("%s has no license", name))
	case len(files) == 0:
		if author, ok := manifest.Author.(map[string]any); ok {
			manifest.Author = author["name"]
		}
		t.addText(fmt.Sprintf("%s\n    by %v", name, manifest.Author), "Licence: "+manifest.License+"\n")
		return nil
	}
	text, err := os.ReadFile(files[0])
	t.addText(name, string(text))
	return err
}
