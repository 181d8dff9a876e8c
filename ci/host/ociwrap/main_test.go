//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// without is a host whose root lacks CAP_SYS_RESOURCE.
func without() limits {
	return limits{
		bounding: 1<<41 - 1 - 1<<capabilityBit[sysResource],
		oomAdj:   -500,
		hard:     map[string]uint64{"RLIMIT_NOFILE": 1024, "RLIMIT_CORE": 10},
	}
}

const lowered = `{
  "ociVersion": "1.0.2-dev",
  "process": {
    "terminal": true,
    "args": ["/sbin/init"],
    "env": ["PATH=/usr/bin"],
    "capabilities": {
      "bounding": ["CAP_CHOWN", "CAP_NET_ADMIN", "CAP_OF_THE_FUTURE"],
      "effective": ["CAP_CHOWN"],
      "inheritable": [],
      "permitted": ["CAP_CHOWN"],
      "ambient": []
    },
    "rlimits": [
      {"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024},
      {"type": "RLIMIT_CORE", "hard": 10, "soft": 10},
      {"type": "RLIMIT_OF_THE_FUTURE", "hard": 9, "soft": 9}
    ],
    "oomScoreAdj": -500
  },
  "linux": {"resources": {"memory": {"limit": 9007199254740993}}, "cgroupsPath": "/docker/abc"}
}`

func TestEdit(t *testing.T) {
	bundle := string(sample(t))
	var whole object
	if err := json.Unmarshal([]byte(bundle), &whole); err != nil {
		t.Fatal(err)
	}
	var wholeLowered object
	if err := json.Unmarshal([]byte(lowered), &wholeLowered); err != nil {
		t.Fatal(err)
	}
	all := without()
	all.bounding = 1<<41 - 1

	for _, tc := range []struct {
		name  string
		doc   string
		field []string
		l     limits
		want  string // empty: nothing changes
	}{
		{"a bundle", bundle, []string{"process"}, without(), lowered},
		{"the process of exec", string(whole["process"]), nil, without(), string(wholeLowered["process"])},
		{"a host with every capability", bundle, []string{"process"}, all, ""},
		{"what is low already", lowered, []string{"process"}, without(), ""},
		{"nothing to lower", `{"args":["x"]}`, nil, without(), ""},
		{"null", `{"capabilities":null,"rlimits":null}`, nil, without(), ""},
		{"no process", `{"ociVersion":"1"}`, []string{"process"}, without(), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, changed, err := edit([]byte(tc.doc), tc.field, tc.l)
			if err != nil {
				t.Fatal(err)
			}
			if changed != (tc.want != "") {
				t.Errorf("changed: %v", changed)
			}
			want := tc.want
			if want == "" {
				want = tc.doc
			}
			if diff := cmp.Diff(normal(t, want), normal(t, string(got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEditRefuses(t *testing.T) {
	for _, doc := range []string{``, `[]`, `{"process":7}`, `{"process":{"capabilities":[]}}`, `{"process":{"oomScoreAdj":"x"}}`} {
		if got, _, err := edit([]byte(doc), []string{"process"}, without()); err == nil {
			t.Errorf("%s: no error, got %s", doc, got)
		}
	}
}

func TestFileToEdit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		args  []string
		path  string
		field []string
	}{
		{"as containerd calls create", []string{"--root", "/var/run/docker/runtime-plumbline/moby", "--log", "/b/log.json", "--log-format", "json",
			"create", "--bundle", "/b", "--pid-file", "/b/init.pid", "abc"}, "/b/config.json", []string{"process"}},
		{"as containerd calls exec", []string{"--root", "/r", "--log", "/b/log.json", "--log-format", "json",
			"exec", "--process", "/tmp/runc-process1", "--detach", "--pid-file", "/b/x.pid", "abc"}, "/tmp/runc-process1", nil},
		{"equals signs", []string{"--root=/r", "--debug", "run", "--bundle=/b", "abc"}, "/b/config.json", []string{"process"}},
		{"short options", []string{"--systemd-cgroup", "exec", "-p", "/p.json", "abc"}, "/p.json", nil},
		{"the working directory", []string{"create", "abc"}, "config.json", []string{"process"}},
		{"a root named create", []string{"--root", "create", "delete", "abc"}, "", nil},
		{"exec with a command line", []string{"exec", "abc", "ps", "--process", "/not-ours"}, "", nil},
		{"start", []string{"start", "abc"}, "", nil},
		{"version", []string{"--version"}, "", nil},
		{"nothing", nil, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, field := fileToEdit(tc.args)
			if path != tc.path || !cmp.Equal(field, tc.field) {
				t.Errorf("got %q %q, want %q %q", path, field, tc.path, tc.field)
			}
		})
	}
}

func TestEditFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.json")
	if err := os.WriteFile(path, sample(t), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := editFile(path, []string{"process"}, without()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(normal(t, lowered), normal(t, string(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".ociwrap-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := editFile(filepath.Join(dir, "absent"), nil, without()); err != nil {
		t.Errorf("an absent file is runc's to complain about: %v", err)
	}
}

func TestOwnLimits(t *testing.T) {
	l, err := ownLimits()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.hard) != len(resources) || l.hard["RLIMIT_NOFILE"] == 0 {
		t.Errorf("limits %v", l.hard)
	}
	if _, err := boundingSet([]byte("Name:\tx\n")); err == nil {
		t.Error("no CapBnd line, and no error")
	}
	if set, err := boundingSet([]byte("CapEff:\t01\nCapBnd:\t000001fffeffffff\n")); err != nil || set != 0x1fffeffffff {
		t.Errorf("%x, %v", set, err)
	}
}

func sample(t *testing.T) []byte {
	t.Helper()
	doc, err := os.ReadFile("testdata/config.json")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// normal writes a document anew, with sorted keys and its numbers as they are.
func normal(t *testing.T, doc string) string {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Docker before 23.0 gives a privileged container what it knows, which ends with CAP_AUDIT_READ. Who has
// fewer capabilities was not to have all.
func TestNewerCapabilities(t *testing.T) {
	var known, all []string
	for name, bit := range capabilityBit {
		all = append(all, name)
		if bit <= unix.CAP_AUDIT_READ {
			known = append(known, name)
		}
	}
	host := limits{bounding: 1<<41 - 1}
	without := limits{bounding: host.bounding &^ (1 << unix.CAP_BPF)}
	chosen := append(slices.Clone(known), "CAP_PERFMON")
	few := slices.DeleteFunc(slices.Clone(known), func(name string) bool { return name == "CAP_SYSLOG" })
	for _, tc := range []struct {
		name      string
		l         limits
		set, want []string
	}{
		{"privileged", host, known, all},
		{"privileged, of a Docker that knows them", host, all, all},
		{"not privileged", host, few, few},
		{"all but some", host, chosen, chosen},
		{"on a host that lacks one", without, known, slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == "CAP_BPF" })},
	} {
		old, err := json.Marshal(map[string][]string{"bounding": tc.set})
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := tc.l.capabilities(old)
		if err != nil {
			t.Fatal(err)
		}
		set := got.(map[string][]string)["bounding"]
		slices.Sort(set)
		slices.Sort(tc.want)
		if !slices.Equal(set, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, set, tc.want)
		}
	}
}
