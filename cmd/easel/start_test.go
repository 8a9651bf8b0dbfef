package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/rest/page"
)

// startProgram returns the only code block in the given language on the Getting Started page.
func startProgram(t *testing.T, language string) string {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page.Start, -1)
	if len(blocks) != 1 {
		t.Fatalf("found %d code blocks in %s, want 1", len(blocks), language)
	}
	return blocks[0][1]
}

func TestEveryCommandOfTheGettingStartedPageWorks(t *testing.T) {
	t.Parallel()
	if n := len(shellBlocks(t, page.Start)); n < 2 {
		t.Errorf("found only %d sh code blocks", n)
	}
	work := t.TempDir()
	runBlocks(t, startDev(t), programs(t), page.Start, work)
	wantPictures(t, work, "sea.png", "hills.png")
}

// TestEveryProgramOfTheGettingStartedPageWorks runs each program from the Getting Started page unchanged. 'make test-clients'
// installs the dependencies of the programs that are not in Go.
func TestEveryProgramOfTheGettingStartedPageWorks(t *testing.T) {
	t.Parallel()
	clients, err := filepath.Abs(filepath.Join("..", "..", ".build", "clients"))
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd() // the imports of a Go program are found only from within this module
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(clients, "python", "bin", "python")
	modules := filepath.Join(clients, "typescript", "node_modules")
	jars := filepath.Join(clients, "java", "lib")
	dev := startDev(t)
	for _, test := range []struct {
		language, file, needs string
		commands              [][]string
	}{
		{"go", "main.go", "", [][]string{{"go", "run", "-C", here, "WORK/main.go"}}},
		{"python", "start.py", python, [][]string{{python, "start.py"}}},
		{"typescript", "start.mts", modules, [][]string{
			{"node_modules/.bin/tsc", "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "start.mts"}, {"node", "start.mjs"},
		}},
		{"java", "Start.java", jars, [][]string{{"java", "-cp", filepath.Join(jars, "*"), "Start.java"}}},
	} {
		t.Run(test.language, func(t *testing.T) {
			if _, err := os.Stat(test.needs); test.needs != "" && err != nil {
				t.Skip("make test-clients installs the dependencies")
			}
			source, work := atTheServer(dev).Replace(startProgram(t, test.language)), t.TempDir()
			proctest.Write(t, filepath.Join(work, test.file), source)
			if err := os.Symlink(modules, filepath.Join(work, "node_modules")); err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, words := range test.commands {
				words[len(words)-1] = strings.Replace(words[len(words)-1], "WORK", work, 1)
				said = runIn(t, work, dev, words)
			}
			if !strings.Contains(said, "SUCCEEDED") {
				t.Errorf("the program printed\n%s", said)
			}
		})
	}
}

// runIn runs a command in the directory workDir, and returns its output. words contains the program and its arguments. The
// command's environment contains the server's address and an API key, both from dev.
func runIn(t *testing.T, workDir string, dev map[string]string, words []string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Dir = workDir
	command.Env = append(os.Environ(), "EASEL_ADDR="+dev["EASEL_ADDR"], "EASEL_API_KEY="+dev["EASEL_API_KEY"])
	return proctest.Run(t, command)
}
