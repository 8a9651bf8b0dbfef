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
	"slices"
	"strings"
)

// systems are those that .goreleaser.yaml builds for.
var systems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// linked is a package that the program is linked with, as the go command tells it.
type linked struct {
	Dir    string
	Module *struct {
		Path, Dir string
		Main      bool
	}
}

const preface = `Easel
Copyright 2026 The Easel authors

Easel is licensed under the Apache License, Version 2.0, which stands in LICENSE.

The program carries the standard library of Go and the modules below. Their licences follow, each text once.
Written by internal/tools/notice, from the files that each module has with it.
`

// writeProgram writes the notice of the program. A module without a licence is an error.
func writeProgram(to string) error {
	root, err := goroot()
	if err != nil {
		return err
	}
	files := map[string]string{} // by their names, to the module
	for _, name := range []string{"LICENSE", "PATENTS"} {
		files[filepath.Join(root, name)] = "The Go programming language"
	}
	for _, system := range systems {
		packages, err := packagesOn(system)
		if err != nil {
			return err
		}
		for _, p := range packages {
			if err := p.addTexts(files); err != nil {
				return err
			}
		}
	}
	text, err := texts(files)
	if err != nil {
		return err
	}
	page, err := os.ReadFile(filepath.Join("..", "rest", "page", "notice.txt"))
	if err != nil {
		return err
	}
	return os.WriteFile(to, []byte(preface+text+"\n"+strings.Repeat("=", 80)+"\n\n"+string(page)), 0o644)
}

func goroot() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(out)), err
}

// packagesOn are the packages of others that the program is linked with on a system.
func packagesOn(system string) (found []linked, err error) {
	goos, goarch, _ := strings.Cut(system, "/")
	list := exec.Command("go", "list", "-deps", "-json=Dir,Module", "./cmd/easel")
	list.Dir, list.Stderr = filepath.Join("..", ".."), os.Stderr
	list.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GOWORK=") }),
		"CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p linked
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil && !p.Module.Main {
			found = append(found, p)
		}
	}
}

var (
	isText    = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)
	isLicence = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)
)

// addTexts adds the files that stand beside a package, and above it up to the top of its module.
func (p linked) addTexts(files map[string]string) error {
	licensed := false
	for dir := p.Dir; ; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if !entry.IsDir() && isText.MatchString(entry.Name()) && filepath.Ext(entry.Name()) != ".go" {
				files[filepath.Join(dir, entry.Name())] = p.name(dir)
				licensed = licensed || isLicence.MatchString(entry.Name())
			}
		}
		if dir == p.Module.Dir {
			break
		}
	}
	if !licensed {
		return fmt.Errorf("%s has no licence", p.Module.Path)
	}
	return nil
}

// name is that of a directory of the module, without its version.
func (p linked) name(dir string) string {
	return p.Module.Path + filepath.ToSlash(strings.TrimPrefix(dir, p.Module.Dir))
}

// texts lists what stands in the files.
func texts(files map[string]string) (string, error) {
	names := make([]string, 0, len(files))
	for file := range files {
		names = append(names, file)
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(files[a]+"\x00"+filepath.Base(a), files[b]+"\x00"+filepath.Base(b))
	})
	byText := map[string][]part{}
	for _, file := range names {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		p := part{name: files[file]}
		if base := filepath.Base(file); !isLicence.MatchString(base) || strings.Contains(base, "-") {
			p.version = "(" + base + ")"
		}
		var text string
		p.holders, text = split(string(data))
		byText[text] = append(byText[text], p)
	}
	return list(byText), nil
}
