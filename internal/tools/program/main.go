// Command program looks at two builds of the same sources: they must be the same bytes, so
// that anybody can see by building that a published program is made of the published
// sources, and they must be static, so that they run in an image that has nothing else.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: program ONE OTHER")
		os.Exit(2)
	}
	if err := look(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		os.Exit(1)
	}
}

func look(one, other string) error {
	first, err := os.ReadFile(one)
	if err != nil {
		return err
	}
	second, err := os.ReadFile(other)
	if err != nil {
		return err
	}
	if !bytes.Equal(first, second) {
		return fmt.Errorf("%s and %s differ, and are built from the same sources", one, other)
	}
	if err := static(first); err != nil {
		return fmt.Errorf("%s: %w", one, err)
	}
	fmt.Printf("two builds are the same %d bytes, sha256 %x\n", len(first), sha256.Sum256(first))
	return nil
}

// static fails for a program of Linux that needs a loader or a library. Other systems have
// no static programs: there the C library is the door to the kernel.
func static(program []byte) error {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil //nolint:nilerr // not a program of Linux
	}
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("it needs a loader")
		}
	}
	if needed, err := file.ImportedLibraries(); err == nil && len(needed) > 0 {
		return fmt.Errorf("it needs %v", needed)
	}
	return nil
}
