package userspace_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/userspace"
	"github.com/plumbline/plumbline/fixtures/need"
)

// order is what a proxy in a process of its own is told, as JSON in the
// environment: the test binary is its program.
type order struct {
	YAML     string
	StateDir string
	Caps     []int // if any, all that it has
	Drain    time.Duration
}

const orderVariable = "USERSPACE_TEST_ORDER"

func TestMain(m *testing.M) {
	if text := os.Getenv(orderVariable); text != "" {
		os.Exit(proxyMain(text))
	}
	os.Exit(m.Run())
}

// proxyMain runs a proxy until SIGTERM, and tells with a line on stdout that it is
// ready and, at the end, its Stats.
func proxyMain(text string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Println(err)
		return 1
	}
	if keep := o.Caps; len(keep) > 0 {
		o.Caps = nil
		rest, err := json.Marshal(o)
		if err == nil {
			err = os.Setenv(orderVariable, string(rest))
		}
		fmt.Println(errors.Join(err, need.ExecWith(keep...)))
		return 1
	}
	target := userspace.New(userspace.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), StateDir: o.StateDir, Drain: o.Drain})
	if err := target.Apply(ctx, nil, planOf(fataler{}, o.YAML)); err != nil {
		fmt.Println(err)
		return 1
	}
	begin, _ := json.Marshal(target.Stats())
	fmt.Printf("ready %s\n", begin)
	<-ctx.Done()
	if err := target.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	end, _ := json.Marshal(target.Stats())
	fmt.Printf("ended %s\n", end)
	return 0
}

// fataler stands in for a test in another process.
type fataler struct{ testing.TB }

func (fataler) Helper()           {}
func (fataler) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

type process struct {
	cmd  *exec.Cmd
	out  *bufio.Reader
	told userspace.Stats // at the beginning
	log  *notes
}

// notes keeps what a process logs.
type notes struct {
	t    *testing.T
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text.Write(b)
	return n.t.Output().Write(b)
}

func (n *notes) has(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(n.text.String(), text)
}

// spawn starts a proxy as a process in the node's namespace and waits until it is
// ready.
func spawn(t *testing.T, net *dptest.Net, o order) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	log := &notes{t: t}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := net.Node.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, out: bufio.NewReader(out), log: log}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	p.told = p.line(t, "ready")
	return p
}

func (p *process) line(t *testing.T, word string) (s userspace.Stats) {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if !strings.HasPrefix(line, word+" ") {
		rest, _ := io.ReadAll(p.out)
		t.Fatalf("the process says %q %s, not %s: %v", line, rest, word, err)
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, word+" ")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *process) end(t *testing.T, how os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(how); err != nil {
		t.Fatal(err)
	}
	if how == syscall.SIGKILL {
		_ = p.cmd.Wait()
	}
}

// A process that is killed cannot say what ended with it: its successor does, to
// the connection. New connections wait for the successor, none is refused.
func TestKilled(t *testing.T) {
	w := &world{Net: dptest.NewNet(t)}
	w.listen(t, dptest.PodA, "10.244.1.2:8080", echo)
	w.answer(t, dptest.PodA, "10.244.1.2:5353")
	o := order{YAML: services + slice("web", 8080, "TCP", readyA) + slice("dns", 5353, "UDP", readyA), StateDir: t.TempDir()}
	o.Drain = 20 * time.Second // the last connection that is closed may be on its way out
	p := spawn(t, w.Net, o)
	var conns []*net.TCPConn // of the proxy that is there: all that it has
	for round := range 5 {
		open := 3 + round
		for len(conns) < open {
			c := w.mustDial(t, dptest.PodB, "10.96.0.10:80")
			if err := ping(c, "hello"); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		for range 2 {
			if _, _, err := ask(w.client(t, dptest.PodB), "hello"); err != nil {
				t.Fatal(err)
			}
		}
		p.end(t, syscall.SIGKILL)
		late, failed := (*net.TCPConn)(nil), make(chan error, 1)
		go func() {
			c, err := w.dial(dptest.PodB, "10.96.0.10:80")
			if err == nil {
				late, err = c, ping(c, "late")
			}
			failed <- err
		}()
		for _, c := range conns {
			if err := ping(c, "gone"); err == nil {
				t.Error("a connection outlived its proxy")
			}
			c.Close()
		}
		p = spawn(t, w.Net, o)
		if p.told.LostConnections != int64(open) || p.told.LostFlows != 2 {
			t.Errorf("round %d: the successor tells of %+v, want %d connections and 2 flows lost", round, p.told, open)
		}
		if err := <-failed; err != nil {
			t.Fatalf("round %d: a connection begun while there was no proxy: %v", round, err)
		}
		conns = []*net.TCPConn{late} // stays: when the proxy has noticed the end of one nobody can tell
	}
	conns[0].Close()
	p.end(t, syscall.SIGTERM)
	if got := p.line(t, "ended"); got.CutConnections != 0 || got.LostFlows != 2 {
		t.Errorf("in the end: %+v", got)
	}
	if p = spawn(t, w.Net, o); p.told.LostConnections+p.told.LostFlows != 0 {
		t.Errorf("after a good end: %+v", p.told)
	}
}

// The capabilities that doc.go lists are enough, and each is needed.
func TestCapabilities(t *testing.T) {
	need.Root(t)
	w := &world{Net: dptest.NewNet(t)}
	w.listen(t, dptest.PodA, "10.244.1.2:8080", echo)
	w.answer(t, dptest.PodA, "10.244.1.2:5353")
	o := order{YAML: services + slice("web", 8080, "TCP", readyA) + slice("dns", 5353, "UDP", readyA)}
	o.Caps = []int{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE}
	p := spawn(t, w.Net, o)
	if err := ping(w.mustDial(t, dptest.Outside, "192.0.2.1:30080"), "hello"); err != nil {
		t.Errorf("TCP: %v", err)
	}
	if who, _, err := ask(w.client(t, dptest.PodB), "hello"); err != nil {
		t.Errorf("UDP: %s %v", who, err)
	}
	p.end(t, syscall.SIGTERM)
	p.line(t, "ended")

	o.Caps = []int{unix.CAP_NET_ADMIN}
	p = spawn(t, w.Net, o)
	if err := ping(w.mustDial(t, dptest.Outside, "192.0.2.1:30080"), "hello"); err != nil {
		t.Errorf("TCP without NET_BIND_SERVICE: %v", err)
	}
	if _, err := w.client(t, dptest.PodB).WriteTo([]byte("x"), dnsAt); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the datagram is turned away", func() bool { return p.log.has("UDP flow not begun") })
	p.end(t, syscall.SIGTERM)
	if got := p.line(t, "ended"); got.Turned != 1 {
		t.Errorf("UDP to port 53 without NET_BIND_SERVICE: %+v", got)
	}
}
