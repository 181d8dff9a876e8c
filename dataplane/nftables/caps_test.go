package nftables

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// sendTo sends one datagram.
func sendTo(ctx context.Context, to netip.AddrPort) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", to.String())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

// childEnv makes the test binary the child of TestCapabilities.
const childEnv = "NFTABLES_TEST_CHILD"

// Everything a Target does needs NET_ADMIN in its namespace and no other
// capability: a child has no more, as root but for that.
func TestCapabilities(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		child(t)
		return
	}
	ns := netns.ForTest(t, "caps")
	for _, c := range []struct {
		name  string
		keep  uintptr
		works bool
	}{{"NET_ADMIN", unix.CAP_NET_ADMIN, true}, {"another", unix.CAP_NET_BIND_SERVICE, false}} {
		t.Run(c.name, func(t *testing.T) {
			var out []byte
			err := ns.Do(func() error { // on a thread that ends with it
				for i := uintptr(0); i <= unix.CAP_LAST_CAP; i++ {
					if i == c.keep {
						continue
					}
					if err := unix.Prctl(unix.PR_CAPBSET_DROP, i, 0, 0, 0); err != nil {
						return fmt.Errorf("drop capability %d: %w", i, err)
					}
				}
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCapabilities$", "-test.v")
				cmd.Env = append(os.Environ(), childEnv+"=1")
				var err error
				out, err = cmd.CombinedOutput()
				return err
			})
			if want := fmt.Sprintf("CapEff %016x", uint64(1)<<c.keep); !strings.Contains(string(out), want) {
				t.Fatalf("the child does not say %q:\n%s", want, out)
			}
			if (err == nil) != c.works {
				t.Errorf("with %s alone: %v\n%s", c.name, err, out)
			}
		})
	}
}

func child(t *testing.T) {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			t.Logf("CapEff %s", strings.TrimSpace(v))
		}
	}
	if err := LoadConntrack(0); err != nil {
		t.Fatal(err)
	}
	target := New(Config{Logger: newLogger(t)})
	defer target.Close()
	p, q := some(200, 3, 1), some(100, 4, 2)
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- target.Watch(ctx, func() {}) }()
	if err := target.Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	if err := target.Apply(t.Context(), p, q); err != nil {
		t.Fatal(err)
	}
	for _, s := range q.Services {
		if _, err := Path(q, s.Frontends[0].Key, 0); err != nil {
			t.Fatal(err)
		}
		break
	}
	if out, err := Dump(0); err != nil || out != Render(q) {
		t.Errorf("kernel %v:\n%s", err, out)
	}
	if err := Clean(0); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}
