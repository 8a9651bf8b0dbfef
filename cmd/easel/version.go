package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/easel-grpc/easel/internal/cli"
)

// version and revision are set by the linker in a release build, so that the binary does not depend on the build directory.
// If they are empty, the toolchain's build information is used.
var version, revision string

// thisBuild returns the version of this program.
func thisBuild() cli.Build {
	b := cli.Build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	switch {
	case version != "":
		b.Version = version
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	b.Revision = cmp.Or(revision, b.Revision)
	return b
}
