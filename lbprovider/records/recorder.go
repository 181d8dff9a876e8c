// Package records turns what the load balancers of a cluster log into record.Conn and
// record.Event.
package records

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// Files of records, in the directory given to New.
const (
	ConnsFile  = "conns.jsonl"
	EventsFile = "lb-events.jsonl"
	// VersionFile holds HAProxy's version, once one has served.
	VersionFile = "haproxy.version"
)

// Recorder owns the log sockets of every load balancer and turns its rows into
// records. A socket is a path: HAProxy keeps up to 4 MiB of rows while nobody
// listens, and connects again when somebody does. Rows come two ways (see
// haproxy.Render) and are recorded once.
type Recorder struct {
	log    *slog.Logger
	dir    string                       // empty: nothing is kept
	conns  *record.Writer[record.Conn]  // nil: rows are not kept
	events *record.Writer[record.Event] // likewise

	mu      sync.Mutex         // guards the fields below
	version string             // as noted
	taps    map[string]*tap    // by instance
	servers map[server]upState // last known
	seen    seenRows           // of connections
}

// source is one load balancer. A Service that is made anew under its old name
// gets another instance.
type source struct{ instance, service string }

// server is one server of one load balancer.
type server struct {
	source
	proxy, node string
}

type upState struct {
	up    bool
	since time.Time // of the recorded change
	told  time.Time // last heard of; since or later
}

// New writes to dir, or keeps nothing if dir is empty. Files of an
// earlier run in dir are set aside as NAME.1, NAME.2 …
func New(dir string, log *slog.Logger) (*Recorder, error) {
	r := &Recorder{log: log, taps: map[string]*tap{}, servers: map[server]upState{}}
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
	r.dir, r.conns, r.events = dir, conns, events
	return r, nil
}

// Version notes which HAProxy serves; all of a provider's are of one version. A note that
// cannot be written keeps no load balancer from serving.
func (r *Recorder) Version(version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir == "" || r.version == version {
		return
	}
	path := filepath.Join(r.dir, VersionFile)
	next := path + ".new"
	err := os.WriteFile(next, []byte(version+"\n"), 0o644)
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		r.log.Error("HAProxy's version is not noted", "version", version, "err", err)
		return
	}
	r.version = version
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
// already attached stays, unless its sockets were removed. It is not called twice at once
// for one name.
func (r *Recorder) Attach(name, service, dir string) error {
	r.mu.Lock()
	attached, ok := r.taps[name]
	r.mu.Unlock()
	if ok && attached.stands() {
		return nil
	}
	r.Detach(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	t, err := newTap(dir, r.log)
	if err != nil {
		return fmt.Errorf("listen for the log of %s: %w", service, err)
	}
	r.taps[name] = t
	from := source{name, service}
	t.wg.Go(func() { r.accept(t, from) })
	t.wg.Go(func() { r.read(t.packets, from, r.takeConn) })
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

func (r *Recorder) accept(t *tap, from source) {
	for {
		c, err := t.stream.Accept()
		if err != nil {
			return // closed
		}
		if t.add(c) {
			t.wg.Go(func() {
				defer t.done(c)
				r.read(c, from, r.take)
			})
		}
	}
}

func (r *Recorder) read(c io.Reader, from source, take func(from source, line haproxy.Line)) {
	rows := bufio.NewReaderSize(c, 64<<10)
	for {
		row, err := rows.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			r.log.Warn("log row of the load balancer has no end", "lb", from.service, "bytes", len(row))
			continue
		}
		if err != nil {
			return
		}
		line, err := haproxy.ParseLog(string(row))
		if err != nil {
			r.log.Warn("log row of the load balancer is not understood", "lb", from.service, "err", err)
			continue
		}
		take(from, line)
		if rows.Buffered() == 0 {
			r.flush()
		}
	}
}

func (r *Recorder) take(from source, line haproxy.Line) {
	switch {
	case line.Conn != nil:
		r.takeConn(from, line)
	case line.Server != nil:
		r.server(server{from, line.Server.Proxy, line.Server.Node}, line.Server.Up, line.At, line.Text)
	default:
		r.log.Debug("load balancer says", "lb", from.service, "text", line.Text)
	}
}

// takeConn takes rows of connections only. That is all that datagrams are for:
// a server's states must come in order, and the stream has that.
func (r *Recorder) takeConn(from source, line haproxy.Line) {
	if line.Conn != nil && r.conns != nil && r.news(from.service, line.Text) {
		r.conns.Write(connRecord(from.service, *line.Conn))
	}
}

// news reports whether a row was not seen before. Its text names the client's
// address and port and the millisecond of the accept.
func (r *Recorder) news(service, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.add(service+" "+text, time.Now())
}

func connRecord(service string, c haproxy.ConnLine) record.Conn {
	return record.Conn{
		At: record.Now(), Accepted: monotonic(c.Accepted), LB: service, Client: c.Client, Frontend: c.Proxy, Server: c.Node,
		WaitMS: c.WaitMS, DialMS: c.DialMS, TotalMS: c.AllMS, Bytes: c.Bytes, Term: c.Term, Retries: c.Retries, Full: c.Full, Source: c.Source,
	}
}

// monotonic moves HAProxy's or an instance event's own stamp (wall clock of the same host) to the
// clock of records. Unlike the receipt it is right for rows that waited.
func monotonic(t time.Time) int64 {
	return record.Now() - max(0, time.Since(t).Nanoseconds())
}

// server notes the state of one server, if it is news.
func (r *Recorder) server(s server, up bool, at time.Time, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.servers[s]
	if known && last.up == up {
		if at.After(last.told) {
			last.told = at
			r.servers[s] = last
		}
		return
	}
	r.change(s, up, at, detail)
}

// change is called with mu held.
func (r *Recorder) change(s server, up bool, at time.Time, detail string) {
	r.servers[s] = upState{up: up, since: at, told: at}
	state := "DOWN"
	if up {
		state = "UP"
	}
	r.log.Info("server is "+state, "lb", s.service, "proxy", s.proxy, "node", s.node)
	r.event(record.Event{At: monotonic(at), Kind: record.KindServer, State: state, Node: s.node, LB: s.service, Family: familyOf(s.proxy), Detail: s.proxy + ": " + detail})
}

// familyOf a proxy, which is called after that of its clients and servers.
func familyOf(proxy string) record.Family {
	switch {
	case strings.HasSuffix(proxy, "-"+string(lbplan.V4)):
		return record.IPv4
	case strings.HasSuffix(proxy, "-"+string(lbplan.V6)):
		return record.IPv6
	}
	return ""
}

// Seed notes the states of servers of an instance that no log row told of yet.
func (r *Recorder) Seed(name, service string, servers []haproxy.ServerState) {
	for _, found := range servers {
		s := server{source{name, service}, found.Proxy, found.Node()}
		r.mu.Lock()
		if _, known := r.servers[s]; !known {
			r.change(s, found.Up, time.Now(), "as found")
		}
		r.mu.Unlock()
	}
	r.flush()
}

// LB notes an act on a load balancer.
func (r *Recorder) LB(service, state, detail string) { r.lb(service, state, detail, time.Now()) }

func (r *Recorder) lb(service, state, detail string, at time.Time) {
	r.event(record.Event{At: monotonic(at), Kind: record.KindLB, State: state, LB: service, Detail: detail})
	r.flush()
}

// Instance notes that an instance started or ended. With it end the states of
// its servers. The event may come late, when the instance is back already.
func (r *Recorder) Instance(e instance.Event) {
	if e.Kind == instance.Started {
		r.lb(e.Service, record.LBStart, e.Name, e.At)
		return
	}
	r.log.Info("load balancer ended", "lb", e.Service, "detail", e.Detail)
	r.lb(e.Service, record.LBExit, e.Detail, e.At)
	r.mu.Lock()
	for s, last := range r.servers {
		// UP since then: it is not what ended.
		if s.instance != e.Name || !last.up || last.since.After(e.At) || r.superseded(s, e.At) {
			continue
		}
		r.change(s, false, e.At, "HAProxy ended")
		if last.told.After(e.At) {
			r.change(s, true, last.told, "checked again")
		}
	}
	r.mu.Unlock()
	r.flush()
}

// superseded says whether the same server of another instance of the Service
// is UP or was heard of after at: then that one's state counts. Called with mu
// held.
func (r *Recorder) superseded(s server, at time.Time) bool {
	for o, last := range r.servers {
		if o.instance != s.instance && o.service == s.service && o.proxy == s.proxy && o.node == s.node && (last.up || last.told.After(at)) {
			return true
		}
	}
	return false
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
