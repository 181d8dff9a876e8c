package balancer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/lbprovider/records"
)

// containers is Docker without processes: what is started runs.
type containers struct {
	mu     sync.Mutex // guards the fields below
	all    map[string]instance.Instance
	starts []instance.Spec
	fail   map[string]int // calls that fail from now on, by method
	// started is told of each start
	started func(instance.Spec)
}

func (c *containers) failing(method string) error {
	if c.fail[method] > 0 {
		c.fail[method]--
		return errors.New(method + ": told to fail")
	}
	return nil
}

func (c *containers) List(context.Context) ([]instance.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.all)), c.failing("List")
}

func (c *containers) Matches(instance.Instance, instance.Spec) bool { return true }

func (c *containers) Start(_ context.Context, s instance.Spec) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.failing("Start"); err != nil {
		return err
	}
	c.starts = append(c.starts, s)
	c.all[s.Name] = instance.Instance{Name: s.Name, Service: s.Service, UID: s.UID, Addrs: s.Addrs, Running: true}
	if c.started != nil {
		c.started(s)
	}
	return nil
}

func (c *containers) Stop(_ context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, name)
	return nil
}

func (*containers) ComeFirst(string) {}

func (c *containers) Taken(context.Context) (map[netip.Addr]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := map[netip.Addr]string{}
	for _, i := range c.all {
		for _, a := range i.Addrs {
			taken[a] = i.Name
		}
	}
	return taken, nil
}

// set changes the state of a container behind the provider's back.
func (c *containers) set(name string, change func(*instance.Instance)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.all[name]
	change(&i)
	c.all[name] = i
}

func newContainers() *containers {
	return &containers{all: map[string]instance.Instance{}, fail: map[string]int{}}
}

func newFaked(t *testing.T, c *containers) *Fleet {
	t.Helper()
	// t.TempDir is too long for the address of a socket.
	dir, err := os.MkdirTemp("", "plumb-lb-")
	if err != nil {
		t.Fatal(err)
	}
	rec, err := records.New("", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { errors.Join(rec.Close(), os.RemoveAll(dir)) })
	return New(Config{
		Cluster: "test", Profile: quick(), StateDir: dir, Instances: c, Recorder: rec,
		Ranges:      map[lbplan.Family]netip.Prefix{lbplan.V4: netip.MustParsePrefix("127.77.0.0/24")},
		Log:         slog.New(slog.DiscardHandler),
		ClearStatus: func(context.Context, *v1.Service) error { return nil },
	})
}

// world is a provider that follows one load balancer that runs.
type world struct {
	t *testing.T
	*Fleet
	*containers
	name   string
	events chan instance.Event
}

func (w *world) tell(kind instance.Kind) {
	w.events <- instance.Event{Name: w.name, Service: "shop/web", Kind: kind, At: time.Now()}
}

func TestRevive(t *testing.T) {
	stop := func(i *instance.Instance) { i.Running, i.Stopped = false, true }
	for _, c := range []struct {
		name string
		act  func(*world)
		want int // starts
	}{
		{"docker kill", func(w *world) {
			w.tell(instance.Ended)
			time.Sleep(time.Second) // the list is late
			w.set(w.name, stop)
		}, 1},
		{"docker rm -f", func(w *world) {
			w.Stop(w.t.Context(), w.name)
			w.tell(instance.Ended)
			w.tell(instance.Removed)
		}, 1},
		{"removed between two restarts", func(w *world) {
			w.Stop(w.t.Context(), w.name)
			w.tell(instance.Removed)
		}, 1},
		{"a start that fails", func(w *world) {
			w.fail["Start"] = 10
			w.set(w.name, stop)
			w.tell(instance.Ended)
		}, 1},
		{"Docker does not answer", func(w *world) {
			w.fail["List"] = 10
			w.set(w.name, stop)
			w.tell(instance.Ended)
		}, 1},
		{"Docker restarts it", func(w *world) {
			w.set(w.name, func(i *instance.Instance) { i.Running = false })
			w.tell(instance.Ended)
			time.Sleep(2 * time.Second)
			w.set(w.name, func(i *instance.Instance) { i.Running = true })
			w.tell(instance.Started)
		}, 0},
		{"its Service is deleted", func(w *world) {
			if err := w.Of(testService()).Remove(w.t.Context()); err != nil {
				w.t.Error(err)
			}
			w.tell(instance.Ended)
			w.tell(instance.Removed)
		}, 0},
		{"deleted while starts fail", func(w *world) {
			w.fail["Start"] = 10
			w.set(w.name, stop)
			w.tell(instance.Ended)
			time.Sleep(5 * time.Second)
			if err := w.Of(testService()).Remove(w.t.Context()); err != nil {
				w.t.Error(err)
			}
		}, 0},
		{"again and again", func(w *world) {
			for range 3 {
				w.set(w.name, stop)
				w.tell(instance.Ended)
				time.Sleep(time.Second)
			}
		}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := newContainers()
			p := newFaked(t, fake)
			w := &world{t: t, Fleet: p, containers: fake, name: p.Of(testService()).Name()}
			addr := netip.MustParseAddr("127.77.0.9")
			fake.all[w.name] = instance.Instance{Name: w.name, Service: "shop/web", UID: "uid-web", Addrs: []netip.Addr{addr}, Running: true}
			if err := p.Sweep(t.Context(), []*v1.Service{testService()}); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				w.t, w.events = t, make(chan instance.Event)
				var wg sync.WaitGroup
				wg.Go(func() {
					p.Follow(ctx, func(ctx context.Context, f func(instance.Event)) {
						for {
							select {
							case e := <-w.events:
								f(e)
							case <-ctx.Done():
								return
							}
						}
					})
				})
				c.act(w)
				time.Sleep(10 * time.Minute)
				cancel()
				wg.Wait()
			})
			if len(fake.starts) != c.want {
				t.Fatalf("%d starts, want %d", len(fake.starts), c.want)
			}
			for _, s := range fake.starts {
				if want := p.Of(testService()).specOf(instance.Instance{Service: "shop/web", UID: "uid-web", Addrs: []netip.Addr{addr}}); s.Name != want.Name || s.Dir != want.Dir || !slices.Equal(s.Addrs, want.Addrs) || s.UID != want.UID {
					t.Errorf("started %+v, want %+v", s, want)
				}
			}
		})
	}
}

// The looks of revive are counted from the moment that it has the lock.
func TestReviveWaitsForTheLock(t *testing.T) {
	t.Parallel()
	fake := newContainers()
	p := newFaked(t, fake)
	name := p.Of(testService()).Name()
	fake.all[name] = instance.Instance{Name: name, Service: "shop/web", Stopped: true}
	unlock := p.Of(testService()).lock()
	done := make(chan struct{})
	go func() {
		p.Of(testService()).revive(t.Context())
		close(done)
	}()
	select {
	case <-done:
		t.Error("gave up while the lock was busy")
	case <-time.After(6 * time.Second):
	}
	unlock()
	await(t, func() (string, bool) {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		return "not started", len(fake.starts) == 1
	})
	<-done
}

// answers has somebody at the socket of s who says this when asked for his info, and nothing else.
func answers(t *testing.T, s instance.Spec, info string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(s.Dir, haproxy.StatsSocket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			if asked, _ := bufio.NewReader(c).ReadString('\n'); asked == "show info\n" {
				fmt.Fprintln(c, info)
			}
			c.Close()
		}
	}()
	return l
}

// haproxyInfo is what a HAProxy of a version says, as far as it is read.
func haproxyInfo(version string) string { return "Version: " + version + "\nPid: 7" }

// A HAProxy that is too old is ended, and nothing brings it back but the next try, which says
// the same.
func TestTooOldStaysEnded(t *testing.T) {
	t.Parallel()
	fake := newContainers()
	p := newFaked(t, fake)
	fake.started = func(s instance.Spec) {
		if err := os.Remove(filepath.Join(s.Dir, haproxy.StatsSocket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		answers(t, s, haproxyInfo("2.4.22"))
	}
	const want = "HAProxy 2.4.22 is too old"
	for try := 1; try <= 2; try++ {
		if _, err := p.Of(testService()).Ensure(t.Context(), testService(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		p.Of(testService()).revive(t.Context())
		if len(fake.starts) != try || len(fake.all) > 0 {
			t.Errorf("started %d times in %d tries, left %v", len(fake.starts), try, fake.all)
		}
	}
	if err := p.Of(testService()).Update(t.Context(), testService(), nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("new nodes: error %v, want %q", err, want)
	}
}

// One that runs is left as it is.
func TestTooOldIsNotAdopted(t *testing.T) {
	t.Parallel()
	fake := newContainers()
	p := newFaked(t, fake)
	lb := p.Of(testService())
	name, d := lb.Name(), lb.dir
	if err := d.make(); err != nil {
		t.Fatal(err)
	}
	fake.all[name] = instance.Instance{Name: name, Service: "shop/web", Addrs: []netip.Addr{netip.MustParseAddr("127.77.0.9")}, Running: true}
	answers(t, instance.Spec{Dir: d.path}, haproxyInfo("2.4.22"))
	const want = "HAProxy 2.4.22 is too old"
	if _, err := p.Of(testService()).Ensure(t.Context(), testService(), nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if !fake.all[name].Running || len(fake.starts) > 0 {
		t.Errorf("%+v, started %d times", fake.all, len(fake.starts))
	}
}

// One at whose socket somebody else answers is made anew.
func TestNonsenseIsMadeAnew(t *testing.T) {
	t.Parallel()
	fake := newContainers()
	p := newFaked(t, fake)
	lb := p.Of(testService())
	name, d := lb.Name(), lb.dir
	if err := d.make(); err != nil {
		t.Fatal(err)
	}
	fake.all[name] = instance.Instance{Name: name, Service: "shop/web", Addrs: []netip.Addr{netip.MustParseAddr("127.77.0.9")}, Running: true}
	l := answers(t, instance.Spec{Dir: d.path}, "220 mail.example.com ESMTP")
	fake.started = func(s instance.Spec) { l.Close(); answers(t, s, haproxyInfo("3.0.1")) }
	if err := lb.adopt(t.Context(), lb.specOf(fake.all[name]), haproxy.Config{}); err != nil || len(fake.starts) != 1 {
		t.Errorf("%v, started %d times", err, len(fake.starts))
	}
}

func TestIsName(t *testing.T) {
	f := New(Config{Cluster: "test"})
	for name, want := range map[string]bool{
		f.name(testService()):        true,
		"plumbline-lb-0123456789ab":  true,
		"plumbline-lb-0123456789AB":  false,
		"plumbline-lb-0123456789":    false,
		"plumbline-lb-0123456789abc": false,
		"plumbline-lb-stale":         false,
		"0123456789ab":               false,
		"data":                       false,
	} {
		if got := isName(filepath.Base(name)); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}
