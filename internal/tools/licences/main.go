// Command licences collects the licenses of third-party code that is shipped with Easel.
//
// `licences program FILE` writes the licenses of all modules that are linked into the program on any release platform.
// It fails if it recognizes no license for a module.
//
// `licences page FILE` writes the licenses of the packages in the script of the API page. The source map of the script
// lists the packages and their versions, and npm installs them.
package main

import (
	"errors"
	"fmt"
	"os"
)

const heading = "Licences of third-party code that is shipped with Easel, collected by internal/tools/licences.\n\n"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	commands := map[string]func(texts) error{"program": addProgram, "page": addPage}
	if len(args) != 2 || commands[args[0]] == nil {
		return errors.New("usage: licences program|page FILE")
	}
	found := texts{}
	if err := commands[args[0]](found); err != nil {
		return err
	}
	return os.WriteFile(args[1], []byte(heading+found.String()), 0o644)
}
