package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// NetnsOptions choose the wire that load balancers are put on: a bridge in a
// network namespace. Constant after NewNetns.
type NetnsOptions struct {
	ProcessOptions
	Cluster string         // its nodes' namespaces are plumb-CLUSTER-NODE
	Wire    string         // the namespace of the bridge, as ip-netns(8) names it
	Bridge  string         // its name there
	Nets    []netip.Prefix // of the wire: what is reached there without a router
}

// Netns runs each load balancer as a process in a network namespace of its own,
// plumb-CLUSTER-lb-SHORT, with the load balancer's addresses on eth0 and no route
// beyond the wire. Namespaces whose record went with a state directory stay, and keep their
// addresses taken: nobody can tell whose they are. Of a run, `plumbline clean` removes them.
type Netns struct{ *Processes }

// NewNetns checks that the wire, its ranges and the program are there. Each error
// is one line that says what is missing.
func NewNetns(o NetnsOptions) (*Netns, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("load balancers in network namespaces need root")
	}
	w := wire{NetnsOptions: o, prefix: netns.Prefix + o.Cluster + "-lb-"}
	if err := w.check(); err != nil {
		return nil, err
	}
	if err := checkRanges(o.Ranges, o.Nets, "the networks of the wire"); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p, err := newProcesses(o.ProcessOptions, fmt.Sprintln(o.Cluster, o.Wire, o.Bridge, o.Nets))
	if err != nil {
		return nil, err
	}
	p.place = w
	return &Netns{p}, nil
}

// wire is the place of Netns.
type wire struct {
	NetnsOptions
	prefix string // of the load balancers' namespaces
}

func (w wire) namespace(name string) string { return w.prefix + strings.TrimPrefix(name, NamePrefix) }

func pathOf(namespace string) string { return filepath.Join(netns.Dir, namespace) }

// enter makes the namespace anew unless it is whole.
func (w wire) enter(s Spec, f func() error) error {
	full := w.namespace(s.Name)
	have, err := addrsIn(full)
	if err != nil || !slices.Equal(have, sorted(s.Addrs)) {
		if err := w.remove(s.Name); err != nil {
			return err
		}
		if err := w.build(full, s); err != nil {
			return errors.Join(err, w.remove(s.Name))
		}
	}
	return netns.At(pathOf(full)).Do(f)
}

func sorted(addrs []netip.Addr) []netip.Addr {
	return slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare)
}

// remove takes the link out first: left to the kernel, which frees a namespace
// some time after its last user, its other end would stay on the bridge till then.
func (w wire) remove(name string) error {
	full := w.namespace(name)
	if err := netns.At(pathOf(full)).Do(func() error { return removeLink(inside) }); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EINVAL) {
		return err // EINVAL: the file is there, its namespace was not made yet
	}
	return netns.Delete(full)
}

func (w wire) holds(name string, pid int) bool {
	want, err := os.Stat(pathOf(w.namespace(name)))
	if err != nil {
		return false
	}
	have, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	return err == nil && os.SameFile(want, have)
}

func (w wire) left() ([]string, error) {
	files, err := filepath.Glob(pathOf(w.prefix) + "*")
	if err != nil {
		return nil, fmt.Errorf("look for namespaces of load balancers: %w", err)
	}
	for i, f := range files {
		files[i] = NamePrefix + strings.TrimPrefix(filepath.Base(f), w.prefix)
	}
	return files, nil
}

// taken are the addresses of load balancers, also of half-made ones. The ranges
// are theirs alone: nobody else of the wire is asked.
func (w wire) taken() (map[netip.Addr]string, error) {
	names, err := w.left()
	if err != nil {
		return nil, err
	}
	taken := map[netip.Addr]string{}
	for _, name := range names {
		addrs, err := addrsIn(w.namespace(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EINVAL) {
			return nil, fmt.Errorf("look up the addresses of %s: %w", name, err)
		}
		for _, a := range addrs {
			taken[a] = name
		}
	}
	return taken, nil
}
