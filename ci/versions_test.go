package ci

import (
	"os/exec"
	"strings"
	"testing"
)

func TestPins(t *testing.T) {
	v, err := Pins()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(v.DebianImage, v.DebianSuite) {
		t.Errorf("image %s is not of the suite %s", v.DebianImage, v.DebianSuite)
	}
	if !strings.HasSuffix(v.KubeProxyImage, ":"+v.Kubernetes) {
		t.Errorf("image %s is not of version %s", v.KubeProxyImage, v.Kubernetes)
	}
	minor := v.Kubernetes[:strings.LastIndex(v.Kubernetes, ".")+1]
	if !strings.Contains(v.KindNodeImage, minor) {
		t.Errorf("image %s is not of version %sx", v.KindNodeImage, minor)
	}
}

func TestShellReadsTheSame(t *testing.T) {
	out, err := exec.Command("sh", "-c", `. ./versions.env; printf %s "$KIND_NODE_IMAGE"`).Output()
	if err != nil {
		t.Fatal(err)
	}
	if v, err := Pins(); err != nil || v.KindNodeImage != string(out) {
		t.Errorf("shell reads %q, Go reads %q (%v)", out, v.KindNodeImage, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ name, change, want string }{
		{"a missing key", "ETCD_VERSION=v3.6.16\n>", "ETCD_VERSION is missing"},
		{"an empty value", "ETCD_VERSION=v3.6.16>ETCD_VERSION=", "is not KEY=value"},
		{"an unknown key", "ETCD_VERSION=>ETCT_VERSION=", "unknown key ETCT_VERSION"},
		{"a key twice", "ETCD_VERSION=v3.6.16>KIND_VERSION=v3.6.16", "KIND_VERSION is there twice"},
		{"what a shell would run", "v3.6.16>v3$(id)", "readable by a shell"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from, to, _ := strings.Cut(tc.change, ">")
			changed := strings.Replace(versionsEnv, from, to, 1)
			if changed == versionsEnv {
				t.Fatalf("versions.env has no %q", from)
			}
			_, err := Parse(changed)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
		})
	}
}
