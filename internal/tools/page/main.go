// Command page compresses the script that draws the API reference, so that the
// repository and the binary carry a third of its size.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"regexp"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: page SCRIPT COMPRESSED")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// sourceMap is the last line of a script, which makes a browser's tools ask for a file that
// nobody serves.
var sourceMap = regexp.MustCompile(`\n//# sourceMappingURL=\S+\s*$`)

func write(from, to string) error {
	script, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	script = sourceMap.ReplaceAll(script, []byte("\n"))
	if bytes.Equal(content(to), script) {
		return nil // another release of Go may compress the same to other bytes
	}
	var compressed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := writer.Write(script); err != nil {
		return err
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, compressed.Bytes(), 0o644)
}

// content is what a compressed file holds, nil where it can't be read.
func content(name string) []byte {
	compressed, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil
	}
	script, err := io.ReadAll(reader)
	if err != nil {
		return nil
	}
	return script
}
