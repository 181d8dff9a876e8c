//go:build linux

package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

func noEnv(string) string { return "" }

func TestBadFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                                  "the command must be serve",
		"check":                             "the command must be serve",
		"serve":                             "--name",
		"serve --name a extra":              "extra",
		"serve --name a --no-such":          "no-such",
		"serve --name a --control 0":        "--control 0",
		"serve --name a --control 1.2.3.4:": "--control",
		"serve --name a --tcp 80,x":         `--tcp 80,x: "x"`,
		"serve --name a --udp 90-80":        "--udp 90-80: range",
		"serve --name a --sctp 70000":       "--sctp 70000",
		"serve --name a --address 1.2.3":    `--address 1.2.3: "1.2.3"`,
		"serve --name a --address=":         "--address names no address",
		"serve --name a --connect ::1,x/8":  `--connect ::1,x/8: "x/8"`,
		"serve --name a":                    "$PROBE_KEY is empty",
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), noEnv, io.Discard, &stderr); code != 2 {
			t.Errorf("%q: exit %d, want 2", args, code)
		}
		if got := stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
			t.Errorf("%q: said %q, want one line with %q", args, got, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help"}, {"serve", "--help"}} {
		var out bytes.Buffer
		if code := run(t.Context(), args, noEnv, &out, io.Discard); code != 0 || !strings.Contains(out.String(), "-sctp-optional") {
			t.Errorf("%v: exit %d, %q", args, code, out.String())
		}
	}
}

func TestPorts(t *testing.T) {
	got, err := ports("8080,9000-9002")
	if want := []uint16{8080, 9000, 9001, 9002}; err != nil || len(got) != len(want) || got[1] != want[1] || got[3] != want[3] {
		t.Errorf("%v, %v", got, err)
	}
}

// TestUnprivileged: the program as a container runs it: nobody's user id, no
// capabilities; all it does works, and SIGTERM ends it with 0.
func TestUnprivileged(t *testing.T) {
	need.Root(t)
	need.Program(t, "go")
	dir, err := os.MkdirTemp("", "plumb-probe-") // not t.TempDir, which is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "plumb-probe")
	build := exec.Command("go", "build", "-o", bin, "../../plumb-probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	key, text := newKey(t)
	control, test := int(need.Port(t)), int(need.Port(t))
	for test == control {
		test = int(need.Port(t))
	}
	cmd := exec.Command(bin, "serve", "--control", ":"+strconv.Itoa(control), "--tcp", strconv.Itoa(test), "--udp", strconv.Itoa(test), "--sctp", strconv.Itoa(test), "--sctp-optional",
		"--address", "127.0.0.1,::1", "--connect", "127.0.0.1,::1/128")
	cmd.Env = []string{"POD_NAME=pod-1", "NODE_NAME=node-1", "PROBE_KEY=" + text}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitServing(t, stderr)
	local := netip.MustParseAddr("127.0.0.1")
	c, err := remote.Dial(t.Context(), netip.AddrPortFrom(local, uint16(control)), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []remote.Network{remote.TCP, remote.UDP} {
		for _, addr := range []netip.Addr{local, netip.IPv6Loopback()} {
			for port, want := range map[int]remote.Class{test: remote.OK, 1: map[remote.Network]remote.Class{remote.TCP: remote.Refused, remote.UDP: remote.ICMPPort}[n]} {
				r, err := c.Batch(t.Context(), remote.Batch{Network: n, Target: netip.AddrPortFrom(addr, uint16(port)), Attempts: 10, Timeout: 10 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				if s := r.Summary(); !s.All(want) || want == remote.OK && (s.Server["pod-1"] != 10 || s.Node["node-1"] != 10) {
					t.Errorf("%s %s port %d: %s", n, addr, port, s)
				}
			}
		}
	}
	if _, err := c.Batch(t.Context(), remote.Batch{Network: remote.TCP, Target: netip.MustParseAddrPort("127.0.0.2:1")}); err == nil || !strings.Contains(err.Error(), "127.0.0.1/32,::1/128") {
		t.Errorf("beside its ranges: %v", err)
	}
	c.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// newKey is a run's, and as an agent is given it.
func newKey(t *testing.T) (*remote.Key, string) {
	t.Helper()
	key, err := remote.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	return key, string(text)
}

// awaitServing reads the log to the line that says so, and drains the rest.
func awaitServing(t *testing.T, r io.Reader) {
	t.Helper()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var l struct{ Msg string }
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "serving" {
			go func() { _, _ = io.Copy(io.Discard, r) }()
			return
		}
	}
	t.Fatal("it ended without serving")
}

// TestNoSCTP: without the kernel's SCTP its flag is an error that says so.
func TestNoSCTP(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 132)
	if err == nil {
		syscall.Close(fd)
		t.Skip("this kernel has SCTP")
	}
	if !errors.Is(err, syscall.EPROTONOSUPPORT) {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	_, text := newKey(t)
	env := func(name string) string { return map[string]string{"PROBE_KEY": text}[name] }
	code := run(t.Context(), []string{"serve", "--name", "a", "--control", strconv.Itoa(int(need.Port(t))), "--sctp", "9000"}, env, io.Discard, &stderr)
	if got := stderr.String(); code != 1 || !strings.Contains(got, "port 9000/sctp") || strings.Count(got, "\n") != 1 {
		t.Errorf("exit %d, said %q", code, got)
	}
}
