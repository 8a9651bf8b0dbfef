package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// systems contains the platforms for which .goreleaser.yaml builds releases.
var systems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// linked is a Go package of the program, as go list describes it.
type linked struct {
	Dir    string
	Module *struct {
		Path, Dir string
		Main      bool
	}
}

// addProgram adds the licenses of Go, of all modules that are linked into the program, and of the script in the API page. It must
// run in the root directory of the repository.
func addProgram(found texts) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	if err := found.addDirectory("The Go programming language", strings.TrimSpace(string(root))); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, system := range systems {
		if err := found.addLinked(system, known); err != nil {
			return err
		}
	}
	page, err := os.ReadFile(filepath.Join("internal", "rest", "page", "notice.txt"))
	found["page"] = &licence{body: string(page), parts: []string{"The script of the API page"}}
	return err
}

// addLinked adds the licenses of the packages that are linked into the program for a platform. It skips the directories in
// searchedDirs, and adds each directory that it searches to searchedDirs.
func (t texts) addLinked(system string, searchedDirs map[string]bool) error {
	goos, goarch, _ := strings.Cut(system, "/")
	list := exec.Command("go", "list", "-deps", "-json=Dir,Module", "./cmd/easel")
	list.Env, list.Stderr = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch), os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p linked
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		// A directory in a module may have its own license, in addition to the module's license.
		for dir := p.Dir; !searchedDirs[dir]; dir = filepath.Dir(dir) {
			searchedDirs[dir] = true
			err := t.addDirectory(p.Module.Path+filepath.ToSlash(strings.TrimPrefix(dir, p.Module.Dir)), dir)
			if dir == p.Module.Dir {
				if err != nil {
					return err
				}
				break
			}
		}
	}
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)
	// recognised matches phrases from the MIT, ISC, BSD, Apache and MPL licenses, which allow the program to be distributed under
	// Apache-2.0.
	recognised = regexp.MustCompile(`Permission is hereby granted, free of charge|Permission to use, copy, modify, and(/or)? distribute|` +
		`Redistribution and use in source and binary forms|Apache License,? Version 2\.0|Mozilla Public License,? [Vv]ersion 2\.0`)
)

// addDirectory adds the license files in a directory. It returns an error if the pattern recognised matches none of them.
func (t texts) addDirectory(name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	licensed := false
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		t.addText(name, string(text))
		licensed = licensed || recognised.MatchString(strings.Join(strings.Fields(string(text)), " "))
	}
	if !licensed {
		return fmt.Errorf("%s: no recognized license in %s", name, dir)
	}
	return nil
}
