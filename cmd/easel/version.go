package main

import (
	"runtime"
	"runtime/debug"

	"github.com/easel-grpc/easel/internal/cli"
)

// The linker sets version and revision in a release build. In other builds, they are empty. The version then comes from the
// Go toolchain's build information, and contains the revision.
var version, revision string

// thisBuild returns the version of this program.
func thisBuild() cli.Build {
	b := cli.Build{Version: version, Revision: revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok && version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}
