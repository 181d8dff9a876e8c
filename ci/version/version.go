// Package version says of which version a program of this project is.
package version

import (
	"cmp"
	"runtime/debug"
)

// version is set by the Makefile (git describe).
var version = ""

// String is the program's version: what make built it from, or its module's. Of what is built otherwise
// from a clone (plumb-cni in an image of nodes, whose key knows no commit) it is unknown.
func String() string {
	module := Module()
	if module == "(devel)" {
		module = ""
	}
	return cmp.Or(version, module, "unknown")
}

// Module is the version of the module that this program was built from, such as v0.3.0; empty: the
// Go command has noted none.
func Module() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return info.Main.Version
}
