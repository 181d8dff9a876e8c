package lbprovider

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
)

// Files of records, in the directory given to NewRecorder.
const (
	ConnsFile  = "conns.jsonl"
	EventsFile = "lb-events.jsonl"
)

// States of a record.KindLB event.
const (
	stateStart   = "start"
	stateReload  = "reload"
	stateRuntime = "runtime"
	stateExit    = "exit"
)

// Recorder owns the log socket of every load balancer and turns its rows into
// records. A socket is a path: HAProxy keeps up to 4 MiB of rows while nobody
// listens, and connects again when somebody does.
type Recorder struct {
	log    *slog.Logger
	conns  *record.Writer[record.Conn]  // nil: rows are not kept
	events *record.Writer[record.Event] // likewise

	mu   sync.Mutex                 // guards the fields below
	taps map[string]*tap            // by container
	up   map[string]map[string]bool // Service -> proxy/node -> last known state
}

// NewRecorder writes to dir, or keeps nothing if dir is empty. Files of an
// earlier run in dir are set aside as NAME.1, NAME.2 …
func NewRecorder(dir string, log *slog.Logger) (*Recorder, error) {
	r := &Recorder{log: log, taps: map[string]*tap{}, up: map[string]map[string]bool{}}
	if dir == "" {
		return r, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of records: %w", err)
	}
	conns, err := create[record.Conn](filepath.Join(dir, ConnsFile))
	if err != nil {
		return nil, err
	}
	events, err := create[record.Event](filepath.Join(dir, EventsFile))
	if err != nil {
		return nil, errors.Join(err, conns.Close())
	}
	r.conns, r.events = conns, events
	return r, nil
}

func create[T any](path string) (*record.Writer[T], error) {
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.%d", path, n)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			if err := os.Rename(path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("set earlier records aside: %w", err)
			}
			break
		}
	}
	w, err := record.Create[T](path)
	if err == nil {
		w.Flush()
	}
	return w, err
}

// Close ends all taps and the files.
func (r *Recorder) Close() error {
	r.mu.Lock()
	taps := r.taps
	r.taps = map[string]*tap{}
	r.mu.Unlock()
	for _, t := range taps {
		t.close()
	}
	if r.conns == nil {
		return nil
	}
	return errors.Join(r.conns.Close(), r.events.Close())
}

// Attach listens for the log of the load balancer called name. One that is
// already attached stays.
func (r *Recorder) Attach(name, service, dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.taps[name]; ok {
		return nil
	}
	path := filepath.Join(dir, haproxy.LogSocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("free the log socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen for the load balancer's log: %w", err)
	}
	// The directory is the guard; HAProxy's user needs to write.
	if err := os.Chmod(path, 0o666); err != nil {
		return errors.Join(fmt.Errorf("open the log socket to HAProxy: %w", err), l.Close())
	}
	t := &tap{listener: l, conns: map[net.Conn]bool{}}
	r.taps[name] = t
	t.wg.Go(func() { r.accept(t, service) })
	return nil
}

// Detach ends listening for name.
func (r *Recorder) Detach(name string) {
	r.mu.Lock()
	t, ok := r.taps[name]
	delete(r.taps, name)
	r.mu.Unlock()
	if ok {
		t.close()
	}
}

// tap is the listening end of one load balancer's log.
type tap struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex        // guards the fields below
	conns  map[net.Conn]bool // one per worker
	closed bool
}

func (t *tap) close() {
	t.mu.Lock()
	t.closed = true
	t.listener.Close()
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
}

func (t *tap) add(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		c.Close()
		return false
	}
	t.conns[c] = true
	return true
}

func (t *tap) done(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
	c.Close()
}

func (r *Recorder) accept(t *tap, service string) {
	for {
		c, err := t.listener.Accept()
		if err != nil {
			return // closed
		}
		if t.add(c) {
			t.wg.Go(func() {
				defer t.done(c)
				r.read(c, service)
			})
		}
	}
}

func (r *Recorder) read(c io.Reader, service string) {
	rows := bufio.NewReaderSize(c, 64<<10)
	for {
		row, err := rows.ReadString('\n')
		if err != nil {
			return
		}
		line, err := haproxy.ParseLog(row)
		if err != nil {
			r.log.Warn("log row of the load balancer is not understood", "lb", service, "err", err)
			continue
		}
		r.take(service, line)
		if rows.Buffered() == 0 {
			r.flush()
		}
	}
}

func (r *Recorder) take(service string, line haproxy.Line) {
	switch {
	case line.Conn != nil:
		if r.conns != nil {
			r.conns.Write(connRecord(service, *line.Conn))
		}
	case line.Server != nil:
		r.server(service, line.Server.Proxy, line.Server.Node, line.Server.Up, monotonic(line.At), line.Text)
	default:
		r.log.Debug("load balancer says", "lb", service, "text", line.Text)
	}
}

func connRecord(service string, c haproxy.ConnLine) record.Conn {
	return record.Conn{
		At: record.Now(), Accepted: monotonic(c.Accepted), LB: service, Client: c.Client, Frontend: c.Proxy, Server: c.Node,
		WaitMS: c.WaitMS, DialMS: c.DialMS, TotalMS: c.AllMS, Bytes: c.Bytes, Term: c.Term, Retries: c.Retries,
	}
}

// monotonic moves HAProxy's own stamp (wall clock of the same host) to the
// clock of records. Unlike the receipt it is right for rows that waited.
func monotonic(t time.Time) int64 {
	return record.Now() - max(0, time.Since(t).Nanoseconds())
}

// server notes the state of one server, if it is news.
func (r *Recorder) server(service, proxy, node string, up bool, at int64, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.up[service] == nil {
		r.up[service] = map[string]bool{}
	}
	if last, ok := r.up[service][proxy+"/"+node]; ok && last == up {
		return
	}
	r.up[service][proxy+"/"+node] = up
	state := "DOWN"
	if up {
		state = "UP"
	}
	r.log.Info("server is "+state, "lb", service, "proxy", proxy, "node", node)
	r.event(record.Event{At: at, Kind: record.KindServer, State: state, Node: node, LB: service, Detail: proxy + ": " + detail})
}

// Seed notes the states of servers that no log row told of yet.
func (r *Recorder) Seed(service string, servers []haproxy.ServerState) {
	for _, s := range servers {
		r.mu.Lock()
		_, known := r.up[service][s.Proxy+"/"+s.Node()]
		r.mu.Unlock()
		if !known {
			r.server(service, s.Proxy, s.Node(), s.Up, record.Now(), "as found")
		}
	}
	r.flush()
}

// LB notes an act on a load balancer.
func (r *Recorder) LB(service, state, detail string) {
	r.event(record.Event{At: record.Now(), Kind: record.KindLB, State: state, LB: service, Detail: detail})
	r.flush()
}

// Instance notes that a container started or ended. With it end the states of
// its servers.
func (r *Recorder) Instance(e instance.Event) {
	if e.Started {
		r.LB(e.Service, stateStart, e.Name)
		return
	}
	r.log.Info("load balancer ended", "lb", e.Service, "detail", e.Detail)
	r.LB(e.Service, stateExit, e.Detail)
	r.mu.Lock()
	for server, up := range r.up[e.Service] {
		if proxy, node, _ := strings.Cut(server, "/"); up {
			r.up[e.Service][server] = false
			r.event(record.Event{At: record.Now(), Kind: record.KindServer, State: "DOWN", Node: node, LB: e.Service, Detail: proxy + ": HAProxy ended"})
		}
	}
	r.mu.Unlock()
	r.flush()
}

func (r *Recorder) event(e record.Event) {
	if r.events != nil {
		r.events.Write(e)
	}
}

func (r *Recorder) flush() {
	if r.conns != nil {
		r.conns.Flush()
		r.events.Flush()
	}
}
