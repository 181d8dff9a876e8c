package instance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// Files of a process in its load balancer's directory, besides HAProxy's own.
const (
	recordFile = "instance.json" // what it was started with; first to come, last to go
	outputFile = "haproxy.log"
)

// ProcessOptions are what Netns and Host have in common. Constant after the
// start.
type ProcessOptions struct {
	StateDir string // every Spec.Dir is StateDir/Spec.Name
	Program  string // HAProxy: a path, or a name on the PATH
	Ranges   []netip.Prefix
	Log      *slog.Logger
}

// place is where processes run.
type place interface {
	// enter runs f on a thread of its own where the process of s belongs, which
	// is made if it is not there.
	enter(s Spec, f func() error) error
	// remove takes away what enter made for name; nothing there is fine.
	remove(name string) error
	// holds says whether a process is where that of name belongs.
	holds(name string, pid int) bool
	// taken are addresses in use there; those of load balancers may be among them.
	taken() (map[netip.Addr]string, error)
}

// Processes runs each load balancer as a HAProxy process of its own that
// outlives this program. Adopt is called once, before everything else.
//
// Found again is what runs by its command line, which names its directory, and
// what it was started with by the record there. The record is written before
// anything is made, so that a start that was cut off is found as well.
//
// One that ends, however it ends, is started anew where and as it was, as long
// as Watch runs: 100 ms after it ended (Docker's first wait), or 1 s after if it
// ran for less than a second. One that ended while nobody watched is Stopped.
type Processes struct {
	opts    ProcessOptions
	program string    // full path
	caps    []uintptr // that HAProxy gets if this program is root
	place   place
	made    string // of what else the digest depends on

	spawning sync.RWMutex // held for reading while one is spawned
	closed   bool         // guarded by it: none is any more

	mu     sync.Mutex // guards the fields below
	all    map[string]*process
	events []Event    // not yet told
	orphan []*process // not yet watched
	wake   chan struct{}
}

// process is one load balancer.
type process struct {
	spec   Spec
	digest string
	op     sync.Mutex // held by the one that starts or ends it

	// Guarded by Processes.mu.
	run      *run  // nil: nothing runs that is known
	found    []int // by Adopt, the processes of one that is to come first again
	watched  bool  // it is started anew if it ends
	stopping bool
}

func newProcesses(o ProcessOptions, made string) (*Processes, error) {
	program, err := exec.LookPath(o.Program)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return nil, fmt.Errorf("the program %s is not on this host: install HAProxy (%w)", o.Program, err)
	}
	if err := checkVersion(program); err != nil {
		return nil, err
	}
	return &Processes{opts: o, program: program, made: made, all: map[string]*process{}, wake: make(chan struct{}, 1)}, nil
}

// checkVersion refuses a program that cannot do what is asked of it.
func checkVersion(program string) error {
	said, err := exec.Command(program, "-v").Output()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", program, err)
	}
	version, err := haproxy.VersionIn(string(said))
	if err == nil {
		err = haproxy.CheckVersion(version)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	return nil
}

// Adopt finds the load balancers that an earlier run left. What the place has of a name
// without a record in this state directory is another's: a record comes first and goes last.
func (p *Processes) Adopt() error {
	if err := checkSearchable(p.opts.StateDir); err != nil {
		return err
	}
	found, err := findAll(p.opts.StateDir)
	if err != nil {
		return err
	}
	names, err := recorded(p.opts.StateDir)
	if err != nil {
		return err
	}
	for name := range found {
		names = append(names, name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		if p.all[name] == nil {
			p.all[name] = p.adopt(name, found[name])
		}
	}
	return nil
}

// adopt is called with mu held.
func (p *Processes) adopt(name string, pids []int) *process {
	spec, digest, err := readRecord(p.dir(name))
	if err != nil { // nothing to go by: to be made anew, or removed
		p.opts.Log.Warn("load balancer without a record", "instance", name, "err", err)
		return &process{spec: Spec{Name: name, Dir: p.dir(name)}}
	}
	pr := &process{spec: spec, digest: digest}
	if pid := masterOf(pids); pid != 0 && p.place.holds(name, pid) {
		if pr.run, err = adoptRun(pid, spec.Dir); err != nil {
			p.opts.Log.Warn("load balancer is not taken over", "instance", name, "pid", pid, "err", err)
		}
	}
	if pr.run != nil {
		for _, pid := range pids {
			comeLater(pid) // whose provider was killed
		}
		pr.found = pids
		p.watch(pr)
	}
	return pr
}

// ComeFirst has a load balancer that Adopt found come before all else again: its log has a reader.
func (p *Processes) ComeFirst(name string) {
	p.mu.Lock()
	var pids []int
	if pr := p.all[name]; pr != nil {
		pids, pr.found = pr.found, nil
	}
	p.mu.Unlock()
	for _, pid := range pids {
		if whose(pid, p.opts.StateDir) == name { // or it is another's by now
			comeFirst(pid)
		}
	}
}

func (p *Processes) dir(name string) string { return filepath.Join(p.opts.StateDir, name) }

// Close lets go of what runs, which goes on, but no longer before all else. It comes before the end of the
// recorder, whom load balancers look for then. Nothing is started after it: it would come before all else
// with nobody to change that.
func (p *Processes) Close() error {
	p.spawning.Lock()
	p.closed = true
	p.spawning.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for again := true; again; { // a master may have forked since
		found, err := findAll(p.opts.StateDir)
		errs = append(errs, err)
		again = false
		for _, pids := range found {
			for _, pid := range pids {
				again = comeLater(pid) || again
			}
		}
	}
	for _, pr := range p.all {
		if pr.run != nil {
			errs = append(errs, pr.run.close())
		}
	}
	p.all = map[string]*process{}
	return errors.Join(errs...)
}

// List returns the load balancers that were started here or found by Adopt.
func (p *Processes) List(context.Context) ([]Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Instance
	for name, pr := range p.all {
		i := Instance{Name: name, Service: pr.spec.Service, UID: pr.spec.UID, Addrs: pr.spec.Addrs, digest: pr.digest}
		i.Running = pr.run != nil && pr.run.alive() && p.place.holds(name, pr.run.pid)
		i.Stopped = !i.Running && (!pr.watched || pr.stopping)
		out = append(out, i)
	}
	return out, nil
}

// Matches says whether the process still is what Start would make of s.
func (p *Processes) Matches(i Instance, s Spec) bool { return i.digest == p.digest(s) }

// digest covers all that cannot be changed in a process that runs.
func (p *Processes) digest(s Spec) string {
	h := sha256.New()
	fmt.Fprintln(h, layout, p.program, p.made, s.Dir, s.Addrs, s.Owner, s.UID)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Taken maps every address that is known to be in use to who uses it.
func (p *Processes) Taken(context.Context) (map[netip.Addr]string, error) {
	taken, err := p.place.taken()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, pr := range p.all {
		for _, a := range pr.spec.Addrs {
			taken[a] = name
		}
	}
	return taken, nil
}

// Start runs the process of s in place of what may be left of one. If it cannot
// be started, nothing is left of it.
func (p *Processes) Start(ctx context.Context, s Spec) error {
	if s.Dir != p.dir(s.Name) {
		return fmt.Errorf("start %s: its directory %s is not in %s", s.Name, s.Dir, p.opts.StateDir)
	}
	if len(s.Addrs) == 0 {
		return fmt.Errorf("start %s: it has no address", s.Name)
	}
	if err := p.Stop(ctx, s.Name); err != nil {
		return err
	}
	pr := &process{spec: s, digest: p.digest(s)}
	pr.op.Lock()
	defer pr.op.Unlock()
	p.mu.Lock()
	p.all[s.Name] = pr
	p.mu.Unlock()
	err := writeRecord(s, pr.digest)
	if err == nil {
		err = p.launch(pr)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("start %s at %v: %w", s.Name, s.Addrs, err)
	return errors.Join(err, p.clear(context.WithoutCancel(ctx), s.Name))
}

// launch starts the process and has it watched. It is called with op held.
func (p *Processes) launch(pr *process) error {
	p.spawning.RLock()
	defer p.spawning.RUnlock()
	if p.closed {
		return errors.New("this program has let go of its load balancers")
	}
	r, err := p.spawn(pr.spec)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pr.run = r
	p.tell(pr, Started, r.since, "")
	p.watch(pr)
	return nil
}

// Stop ends a load balancer at once, with its connections, and removes what was
// made for it. One that is not there is fine.
func (p *Processes) Stop(ctx context.Context, name string) error {
	p.mu.Lock()
	pr := p.all[name]
	if pr != nil {
		pr.stopping = true
	}
	p.mu.Unlock()
	if pr != nil {
		pr.op.Lock()
		defer pr.op.Unlock()
	}
	return p.clear(ctx, name)
}

// clear is called with op held, if name is known.
func (p *Processes) clear(ctx context.Context, name string) error {
	if err := endAll(ctx, p.opts.StateDir, name); err != nil {
		return fmt.Errorf("end %s: %w", name, err)
	}
	p.mu.Lock()
	pr := p.all[name]
	p.mu.Unlock()
	if pr != nil {
		p.over(pr, time.Now())
	}
	if err := errors.Join(p.place.remove(name), removeRecord(p.dir(name))); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if pr != nil {
		delete(p.all, name)
		p.tell(pr, Removed, time.Now(), "")
	}
	return nil
}

// checkRanges wants every range within one of nets.
func checkRanges(ranges, nets []netip.Prefix, of string) error {
	for _, r := range ranges {
		if !slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(r.Addr()) && r.Bits() >= n.Bits() }) {
			return fmt.Errorf("load-balancer range %s is not within %s (%s)", r, of, strings.Trim(fmt.Sprint(nets), "[]"))
		}
	}
	return nil
}
