package node

import (
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSysctls(t *testing.T) {
	root := t.TempDir()
	put := func(path, value string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	write := func(root string, load func() error, all []Sysctl) error { return Writer{root, load, log}.Write(all) }
	const liberal, forwarding = "net/netfilter/nf_conntrack_tcp_be_liberal", "net/ipv6/conf/all/forwarding"
	is := func(path, want string) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s is %q, %v; want %s", path, got, err, want)
		}
	}
	nothing := func() error { return nil }
	refused := errors.New("operation not permitted")
	for _, load := range []func() error{nothing, func() error { return refused }} {
		err := write(root, load, Sysctls(false))
		if err == nil || !strings.Contains(err.Error(), "nf_conntrack_tcp_be_liberal is not there") || !strings.Contains(err.Error(), "module nf_conntrack") {
			t.Errorf("without conntrack: %v, want the sysctl and the module named", err)
		}
		if load() != nil && !errors.Is(err, refused) {
			t.Errorf("got %v, want the reason %v in it", err, refused)
		}
	}
	put("net/ipv4/ip_forward", "1")
	if err := write(root, func() error { put(liberal, "0"); return nil }, Sysctls(true)); err != nil {
		t.Errorf("without IPv6, and with conntrack loaded on demand: %v", err)
	}
	is(liberal, "1")
	put(forwarding, "0")
	again := func() error { t.Error("conntrack is loaded though it is there"); return nil }
	if err := write(root, again, Sysctls(false)); err != nil {
		t.Error(err)
	}
	is(forwarding, "0")
	if err := write(root, again, Sysctls(true)); err != nil {
		t.Error(err)
	}
	is(forwarding, "1")
}

// What is not as it is to be is told, with what that does; what is not there, is not.
func TestAmiss(t *testing.T) {
	root := t.TempDir()
	for path, value := range map[string]string{"net/ipv4/ip_forward": "0", "net/netfilter/nf_conntrack_tcp_be_liberal": "1"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755), os.WriteFile(filepath.Join(root, path), []byte(value+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Amiss(root, Sysctls(true))
	if diff := cmp.Diff([]string{"sysctl net.ipv4.ip_forward is 0 and not 1: nothing is forwarded over IPv4"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := errors.Join(os.Remove(filepath.Join(root, "net/ipv4/ip_forward")), os.Mkdir(filepath.Join(root, "net/ipv4/ip_forward"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if got, err := Amiss(root, Sysctls(true)); err == nil || !strings.Contains(err.Error(), "read sysctl net/ipv4/ip_forward: ") || len(got) > 0 {
		t.Errorf("what cannot be read: %v, %v", got, err)
	}
}

// The values that the flags ask for: kube-proxy's defaults, and what is lower.
func TestConntrackLimits(t *testing.T) {
	const dir = "net/netfilter/nf_conntrack_"
	for _, c := range []struct {
		args  string
		cores int
		want  map[string]string
	}{
		{"", 2, map[string]string{"max": "131072", "buckets": "32768", "tcp_timeout_established": "86400", "tcp_timeout_close_wait": "3600"}},
		{"", 8, map[string]string{"max": "262144", "buckets": "65536", "tcp_timeout_established": "86400", "tcp_timeout_close_wait": "3600"}},
		{"", 256, map[string]string{"max": "1048576", "buckets": "262144", "tcp_timeout_established": "86400", "tcp_timeout_close_wait": "3600"}},
		{"--conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0", 2, map[string]string{}},
		{"--conntrack-max-per-core=100 --conntrack-min=0 --conntrack-udp-timeout=10s --conntrack-udp-timeout-stream=1m", 2, map[string]string{
			"max": "200", "buckets": "50", "udp_timeout": "10", "udp_timeout_stream": "60", "tcp_timeout_established": "86400", "tcp_timeout_close_wait": "3600"}},
	} {
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		limits := RegisterLimits(fs)
		if err := fs.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		if err := limits.Check(fs, true); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, s := range limits.Sysctls(c.cores) {
			got[strings.TrimPrefix(s.path, dir)] = s.value
			if s.global && s.wanted != (c.cores == 2 && c.args != "") {
				t.Errorf("%q: %s wanted=%t", c.args, s.path, s.wanted)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q on %d cores (-want +got):\n%s", c.args, c.cores, diff)
		}
	}
}

// A number of buckets that is large enough stays; any other value may go down.
func TestLowered(t *testing.T) {
	root := t.TempDir()
	for path, value := range map[string]string{"max": "1000", "buckets": "1000"} {
		if err := os.WriteFile(filepath.Join(root, path), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := Writer{Root: root, Log: slog.New(slog.DiscardHandler)}
	if err := w.Write([]Sysctl{{path: "max", value: "200"}, {path: "buckets", value: "50", atLeast: true}}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"max": "200", "buckets": "1000"} {
		if got, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v; want %s", path, got, err, want)
		}
	}
}
