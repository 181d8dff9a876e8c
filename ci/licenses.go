package ci

import _ "embed"

// Licenses are those of the modules that the programs are made of, each text once
// (`make licenses`).
//
//go:embed licenses.txt
var Licenses string // const
