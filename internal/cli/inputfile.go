package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/easel-grpc/easel/internal/terminal"
)

// maxInputFile is the most that an input takes from a file, in bytes: no server takes
// more for all inputs together.
const maxInputFile = 1 << 20

// fileInput gives the value of an argument. One that begins with @ names a file, whose
// text it is, less a line break at the end; one that begins with @@ is itself without
// the first.
func fileInput(name, value string) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile || strings.HasPrefix(path, "@") {
		return path, nil
	}
	text, err := readInput(path)
	if err != nil {
		return "", badInput(name, fmt.Sprintf("can't be read from the file %s: %s; a text that begins with @ is written with @@", terminal.OneLine(path), reasonOf(err)))
	}
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), nil
}

func readInput(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxInputFile+1))
	if err == nil && len(text) > maxInputFile {
		err = errors.New("it is larger than 1 MiB")
	}
	return string(text), err
}
