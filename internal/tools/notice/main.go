// Command notice writes the licences of what is not of Easel and is shipped with it.
//
// `notice page` writes those of all that the script of the API reference carries. The script's source map says which
// packages those are, and of which versions; npm installs them, and it takes the licence of each. After `make generate`:
//
//	GOWORK=off go run -C internal/tools ./notice page
//
// `notice program FILE` writes those of all modules that the program is linked with, on each system of a release.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "notice:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 1 && arguments[0] == "page":
		return writePage()
	case len(arguments) == 2 && arguments[0] == "program":
		return writeProgram(arguments[1])
	default:
		return errors.New("say page, or program FILE")
	}
}
