package stage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/records"
)

// Provider is a running plumb-lb: the cloud of one cluster.
type Provider struct {
	records string
	conns   *record.Tail[record.Conn]
	events  *record.Tail[record.Event]
	pidFile string
	process *os.Process
	done    chan struct{}
	err     error // of the process; set when done is closed
}

// ProviderConfig says how to run plumb-lb.
type ProviderConfig struct {
	Program string
	Args    []string
	PIDFile string // where clean finds it
	Dir     string // records and its log go here
}

// newProvider is one that keeps its records in dir.
func newProvider(dir string) *Provider {
	return &Provider{
		records: dir, done: make(chan struct{}),
		conns:  record.NewTail[record.Conn](filepath.Join(dir, records.ConnsFile)),
		events: record.NewTail[record.Event](filepath.Join(dir, records.EventsFile)),
	}
}

// StartProvider starts plumb-lb. It runs until Stop, or until this program
// dies, however it does.
func StartProvider(c ProviderConfig) (*Provider, error) {
	log, err := os.Create(filepath.Join(c.Dir, "plumb-lb.log"))
	if err != nil {
		return nil, fmt.Errorf("start the load balancer provider: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(c.Program, append(c.Args, "--records="+c.Dir)...)
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own: an interrupt from the terminal must not end it while
	// the scenario still needs its records.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	p := newProvider(c.Dir)
	p.pidFile = c.PIDFile
	started := make(chan error)
	go func() {
		// Pdeathsig is sent when the thread that started the process ends, so
		// this one stays with it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the load balancer provider: %w", err)
	}
	p.process = cmd.Process
	if err := os.WriteFile(p.pidFile, fmt.Appendln(nil, p.process.Pid), 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("note the provider's process: %w", err), p.Stop())
	}
	return p, nil
}

// Version is HAProxy's; empty before one has served.
func (p *Provider) Version() string {
	text, _ := os.ReadFile(filepath.Join(p.records, records.VersionFile))
	return strings.TrimSpace(string(text))
}

// stopPatience is how long the provider may take to end by itself.
const stopPatience = 15 * time.Second

// Stop ends the provider and waits for it.
func (p *Provider) Stop() error {
	if err := p.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the load balancer provider: %w", err)
	}
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		if err := p.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill the load balancer provider: %w", err)
		}
		<-p.done
	}
	if err := os.Remove(p.pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget the provider's process: %w", err)
	}
	return nil
}

// Died is closed when the process has ended; Err then says how.
func (p *Provider) Died() <-chan struct{} { return p.done }

// Err is why a provider that was not stopped has ended.
func (p *Provider) Err() error {
	return fmt.Errorf("the load balancer provider ended (%v); see %s", p.err, filepath.Join(p.records, "plumb-lb.log"))
}

// Conns are the connections its load balancers have logged so far.
func (p *Provider) Conns() ([]record.Conn, error) {
	return p.conns.Read()
}

// Events are the changes of its load balancers so far.
func (p *Provider) Events() ([]record.Event, error) {
	return p.events.Read()
}
