package userspace_test

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/plumbline/plumbline/dataplane/dptest"
)

// A proxy is killed under load and started again at once, over and over. No new
// connection by ClusterIP or node port is refused, and what the successors tell is
// what the clients saw: every connection that had carried data, and of those that
// were just beginning no more than the clients lost.
func TestKilledUnderLoad(t *testing.T) {
	const kills, workers = 20, 8
	w := &world{Net: dptest.NewNet(t)}
	w.listen(t, dptest.PodA, "10.244.1.2:8080", echo)
	o := order{YAML: services + slice("web", 8080, "TCP", readyA), StateDir: t.TempDir()}
	p := spawn(t, w.Net, o)
	l := &load{w: w}
	var working sync.WaitGroup
	for n := range workers {
		from, to := dptest.PodB, "10.96.0.10:80"
		if n%2 == 1 {
			from, to = dptest.Outside, "192.0.2.1:30080"
		}
		working.Go(func() { l.work(from, to) })
	}
	t.Cleanup(func() { l.over.Store(true); working.Wait() })
	var told, before int64
	// Not all that there will be: others are beginning when the proxy ends. Those that
	// nobody has found broken yet do not count.
	back := func() bool { return l.begun.Load() >= before+workers*perWorker/2 }
	for range kills {
		eventually(t, "the load is back", back)
		p.end(t, syscall.SIGKILL)
		before = l.begun.Load()
		p = spawn(t, w.Net, o)
		told += p.told.LostConnections
		line := fmt.Sprintf("ended with it\" tcp=%d udp=0", p.told.LostConnections)
		eventually(t, "the log says "+line, func() bool { return p.log.has(line) })
	}
	eventually(t, "the load is back", back)
	l.over.Store(true)
	working.Wait()
	broken, nipped := l.broken.Load(), l.nipped.Load()
	if n := l.refused.Load(); n > 0 {
		t.Errorf("%d new connections failed; the last: %v", n, l.why.Load())
	}
	if l.outlived.Load() > 0 {
		t.Errorf("%d connections outlived their proxy", l.outlived.Load())
	}
	if told < broken || told > broken+nipped || broken < kills*workers {
		t.Errorf("the successors tell of %d lost connections; clients lost %d, and %d that had just begun", told, broken, nipped)
	}
	t.Logf("%d connections lost in %d kills, %d more that had just begun; %d told", broken, kills, nipped, told)
}

// perWorker is how many connections each worker of a load has open, once it has
// opened them one by one.
const perWorker = 10

// load is many connections by a proxy, all with data on their way, and what
// became of them.
type load struct {
	w        *world
	over     atomic.Bool
	begun    atomic.Int64
	broken   atomic.Int64 // after they had carried data
	nipped   atomic.Int64 // before
	refused  atomic.Int64 // or not answered
	outlived atomic.Int64 // the proxy that others broke with
	why      atomic.Value // string; of the last refusal
}

func (l *load) work(from dptest.Source, to string) {
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for !l.over.Load() {
		if len(conns) < perWorker {
			if c := l.begin(from, to); c != nil {
				conns = append(conns, c)
			}
		}
		for _, c := range conns {
			if ping(c, "hello") != nil {
				conns = l.count(conns)
				break
			}
		}
	}
}

// begin opens a connection and has one exchange on it. One that is reset in its
// first moments had been accepted, by the kernel at least: a refusal says so.
func (l *load) begin(from dptest.Source, to string) net.Conn {
	c, err := l.w.dial(from, to)
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		l.nipped.Add(1)
		return nil
	case err != nil:
		l.refused.Add(1)
		l.why.Store(err.Error())
		return nil
	}
	if ping(c, "first") != nil {
		l.nipped.Add(1)
		c.Close()
		return nil
	}
	l.begun.Add(1)
	return c
}

// count looks at each connection after one broke, and returns what is left: the
// last, if that waited for the next proxy.
func (l *load) count(conns []net.Conn) (left []net.Conn) {
	for i, c := range conns {
		switch {
		case ping(c, "still there") != nil:
			l.broken.Add(1)
		case i == len(conns)-1:
			left = append(left, c)
			continue
		default:
			l.outlived.Add(1)
		}
		c.Close()
	}
	return left
}
