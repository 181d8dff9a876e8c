// Package ci gives Go code the pins of versions.env, the one file that holds
// them all. Beside it lie what prepares a host (host/) and the rules of the
// repository, as tests (presubmit/).
package ci

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed versions.env
var versionsEnv string

// Prepare is the script that prepares a host (host/prepare.sh).
//
//go:embed host/prepare.sh
var Prepare []byte // const

// Versions are the pins. Every field is set: Pins returns an error otherwise.
type Versions struct {
	Kubernetes  string // such as v1.36.3
	Etcd        string
	Containerd  string
	CoreDNS     string
	Kind        string
	DebianSuite string // such as bookworm
	Clang       string // that compiles dataplane/ebpf/bpf

	// Images for hosts that reach a registry.
	KindNodeImage  string
	DebianImage    string
	KubeProxyImage string
}

// Pins reads versions.env, which is part of the program.
func Pins() (Versions, error) { return Parse(versionsEnv) }

// Parse reads lines of KEY=value. A comment is a whole line. Values are taken as
// they are; one that a shell would read differently is an error, as are a key
// that occurs twice, one that is missing and one nobody knows.
func Parse(text string) (Versions, error) {
	var v Versions
	fields := map[string]*string{
		"KUBERNETES_VERSION": &v.Kubernetes,
		"ETCD_VERSION":       &v.Etcd,
		"CONTAINERD_VERSION": &v.Containerd,
		"COREDNS_VERSION":    &v.CoreDNS,
		"KIND_VERSION":       &v.Kind,
		"DEBIAN_SUITE":       &v.DebianSuite,
		"CLANG_VERSION":      &v.Clang,
		"KIND_NODE_IMAGE":    &v.KindNodeImage,
		"DEBIAN_IMAGE":       &v.DebianImage,
		"KUBE_PROXY_IMAGE":   &v.KubeProxyImage,
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		field, known := fields[key]
		switch {
		case !ok || value == "" || strings.ContainsAny(value, " \t\r'\"`$\\#;&|<>()*?"):
			return Versions{}, fmt.Errorf("versions.env line %d: %q is not KEY=value, readable by a shell", n, line)
		case !known:
			return Versions{}, fmt.Errorf("versions.env line %d: unknown key %s", n, key)
		case *field != "":
			return Versions{}, fmt.Errorf("versions.env line %d: %s is there twice", n, key)
		}
		*field = value
	}
	for key, field := range fields {
		if *field == "" {
			return Versions{}, fmt.Errorf("versions.env: %s is missing", key)
		}
	}
	return v, nil
}
