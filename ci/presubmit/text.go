package presubmit

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/ci"
)

// private matches what belongs to one machine or one way of working, not to the
// project. The parts are apart, so that this file does not match itself.
var private = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`/wo` + `rk/`, `/tmp/w` + `/`, `/ho` + `me/[a-z]`, `/ro` + `ot/(go|\.)`, `/Us` + `ers/[a-z]`,
	`\bcla` + `ude\b`, `\banthr` + `opic\b`, `\bchat` + `gpt\b`, `\bcop` + `ilot\b`, `\bllms?\b`, `\bai assis` + `tant`,
	`artif` + `actory`, `goproxy\.(c` + `n|io)`, `mirrors?\.(ali` + `yun|tu` + `na|us` + `tc)`, `deb` + `proxy`,
}, "|"))

// Words looks for private matters in the text of a file.
func Words(name, text string) []Finding {
	var out []Finding
	n := 0
	for line := range strings.Lines(text) {
		n++
		if word := private.FindString(line); word != "" {
			out = append(out, Finding{File: name, Line: n, Text: fmt.Sprintf("%q does not belong into the project", word)})
		}
	}
	return out
}

// IsText tells by its name whether people read a file.
func IsText(name string) bool {
	if path.Base(name) == "go.sum" {
		return false
	}
	return !slices.Contains([]string{".o", ".gz", ".png", ".tar", ".pcap"}, path.Ext(name))
}

// Shell holds bash scripts to failing early.
func Shell(name, text string) []Finding {
	if !strings.HasPrefix(text, "#!") || !strings.Contains(strings.SplitN(text, "\n", 2)[0], "bash") {
		return nil
	}
	short, long := "\nset -euo pipefail\n", "\nset -o errexit -o nounset -o pipefail\n"
	if !strings.Contains(text, short) && !strings.Contains(text, long) {
		return []Finding{{File: name, Line: 1, Text: "a bash script without set -euo pipefail"}}
	}
	return nil
}

var (
	required = regexp.MustCompile(`(?m)^\s*(?:require\s+)?(\S+) (v\S+)(?: // indirect)?$`)
	baseArg  = regexp.MustCompile(`(?m)^ARG BASE=(\S+)`)
)

// Pins holds a go.mod to versions.env: where it requires one of the modules
// pinned there as what it builds, the version is the same.
func Pins(name, gomod string, v ci.Versions) []Finding {
	pinned := map[string]string{
		"k8s.io/kubernetes":                   v.Kubernetes,
		"go.etcd.io/etcd/server/v3":           v.Etcd,
		"github.com/containerd/containerd/v2": v.Containerd,
		"github.com/coredns/coredns":          v.CoreDNS,
		"sigs.k8s.io/kind":                    v.Kind,
	}
	var out []Finding
	for _, m := range required.FindAllStringSubmatch(gomod, -1) {
		if want := pinned[m[1]]; want != "" && m[2] != want {
			out = append(out, Finding{File: name, Text: fmt.Sprintf("requires %s %s, but ci/versions.env pins %s", m[1], m[2], want)})
		}
	}
	return out
}

// Dockerfile holds the default base to the pinned suite.
func Dockerfile(name, text string, v ci.Versions) []Finding {
	var out []Finding
	for _, m := range baseArg.FindAllStringSubmatch(text, -1) {
		repository, tag, _ := strings.Cut(m[1], ":")
		if repository == "debian" && !strings.HasPrefix(tag, v.DebianSuite) {
			out = append(out, Finding{File: name, Text: fmt.Sprintf("starts from %s, but ci/versions.env pins %s", m[1], v.DebianSuite)})
		}
	}
	return out
}
