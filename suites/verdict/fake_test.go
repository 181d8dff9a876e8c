package verdict

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/probe"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/fixtures/workload/server"
)

// The fakes: a TCP load balancer and the pods of two nodes, in this process on
// loopback, that do to request number seq what the script says.
//
//	probe --> fakeLB --> fakePod n1 (even numbers), n2 (odd numbers)

// act is what befalls one request.
type act string

const (
	serve       act = "serve"
	drain       act = "drain"         // serve, as a pod that got SIGTERM
	dawdle      act = "dawdle"        // serve after slowBy
	miss        act = "miss"          // serve after the client's patience, before the probe's deadline
	stall       act = "stall"         // pod: never answer
	resetAtOnce act = "reset"         // pod: RST (SO_LINGER 0) instead of an answer
	hangUp      act = "hang up"       // pod: FIN instead of an answer
	truncate    act = "truncate"      // pod: half an answer, then FIN
	resetInBody act = "reset in body" // pod: half an answer, then RST
	app500      act = "500"
	app404      act = "404"
	garble      act = "garble"     // pod: an answer to another request
	impostor    act = "impostor"   // pod: an answer from a pod of another node
	refuse      act = "refuse"     // node: nothing listens
	swallow     act = "swallow"    // node: SYNs are dropped in silence
	noNode      act = "no server"  // LB: no server is up
	errorPage   act = "error page" // LB: its own 503
)

const (
	slowBy    = 500 * time.Millisecond
	missBy    = 1250 * time.Millisecond
	lbConnect = 2 * time.Second // longer than the client waits

	// patience bounds every connection of the fakes. The script needs a tenth.
	patience = 30 * time.Second
)

// Each connection is closed after limit, and all are at the end of the test: a
// test against the fakes can fail, and never hang.
type fake struct {
	t       *testing.T
	script  func(seq int) act
	limit   time.Duration
	lb      *net.TCPListener
	pods    map[string]*net.TCPListener
	refused string // an address where nothing listens
	silent  string // an address that drops SYNs
	wg      sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	conns   []record.Conn
	open    map[net.Conn]bool
	ended   bool // nothing may be opened any more
	overdue int  // connections that were closed for their age
}

func nodeOf(seq int) string { return []string{"n1", "n2"}[seq%2] }

func newFake(t *testing.T, limit time.Duration, script func(int) act) *fake {
	t.Helper()
	f := &fake{t: t, limit: limit, script: script, pods: map[string]*net.TCPListener{}, open: map[net.Conn]bool{}}
	t.Cleanup(f.end)
	for _, node := range []string{"n1", "n2"} {
		l := listenTCP(t)
		f.pods[node] = l
		f.accept(l, func(c *net.TCPConn) { f.pod(c, node) })
	}
	f.lb = listenTCP(t)
	f.accept(f.lb, f.balance)
	f.refused = nobody(t)
	f.silent = netns.ListenSilently(t).Addr.String()
	return f
}

func listenTCP(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// nobody is an address where nothing listens.
func nobody(t *testing.T) string {
	return fmt.Sprintf("127.0.0.1:%d", need.Port(t))
}

func (f *fake) accept(l *net.TCPListener, handle func(*net.TCPConn)) {
	f.wg.Go(func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			f.wg.Go(func() {
				defer f.hold(c)()
				handle(c)
			})
		}
	})
}

// hold bounds a connection's life; what it returns ends it.
func (f *fake) hold(c net.Conn) (release func()) {
	timer := time.AfterFunc(f.limit, func() {
		f.mu.Lock()
		f.overdue++
		f.mu.Unlock()
		c.Close()
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[c] = true
	if f.ended {
		c.Close()
	}
	return func() {
		timer.Stop()
		c.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, c)
	}
}

// finish waits until the fakes are done and returns the LB's log, or an error
// if a connection had to be ended for its age.
func (f *fake) finish() ([]record.Conn, error) {
	f.stopListening()
	f.wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.overdue > 0 {
		return nil, fmt.Errorf("%d connections to the fakes were still open after %s", f.overdue, f.limit)
	}
	return f.conns, nil
}

// end closes whatever is open and waits for the rest.
func (f *fake) end() {
	f.stopListening()
	f.mu.Lock()
	f.ended = true
	for c := range f.open {
		c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *fake) stopListening() {
	if f.lb != nil { // the test may have ended before
		f.lb.Close()
	}
	for _, l := range f.pods {
		l.Close()
	}
}

func readSeq(c net.Conn) (int, bool) {
	var seq int
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, false
	}
	if _, err := fmt.Sscanf(line, "GET /?seq=%d ", &seq); err != nil {
		return 0, false
	}
	for line != "\r\n" {
		if line, err = r.ReadString('\n'); err != nil {
			return 0, false
		}
	}
	return seq, true
}

// balance forwards one connection as HAProxy in TCP mode does without retries,
// and logs it. (It reads the number first, which HAProxy does not.)
func (f *fake) balance(c *net.TCPConn) {
	client := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	log := record.Conn{Accepted: record.Now(), Client: client, DialMS: -1, Term: "SC"}
	defer func() {
		log.At = record.Now()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.conns = append(f.conns, log)
	}()
	seq, ok := readSeq(c)
	if !ok {
		log.Term = "CD"
		return
	}
	do := f.script(seq)
	if do == noNode {
		log.Server = noServer
		return
	}
	log.Server = nodeOf(seq)
	dst := f.pods[log.Server].Addr().String()
	switch do {
	case errorPage:
		log.Term = "PR"
		io.WriteString(c, "HTTP/1.0 503 Service Unavailable\r\nConnection: close\r\n\r\n<html>none</html>")
		return
	case refuse:
		dst = f.refused
	case swallow:
		dst, log.Term = f.silent, "sC"
	}
	up, err := net.DialTimeout("tcp", dst, lbConnect)
	if err != nil {
		return
	}
	defer f.hold(up)()
	log.DialMS, log.Term = 0, "--"
	f.wg.Go(func() { // a client that gives up ends the connection to the pod
		io.Copy(io.Discard, c)
		up.Close()
	})
	fmt.Fprintf(up, "GET /?seq=%d HTTP/1.1\r\n\r\n", seq)
	if _, err := io.Copy(c, up); errors.Is(err, syscall.ECONNRESET) {
		log.Term = "SD"
		f.delivered(c)
		c.SetLinger(0)
	}
}

// pod answers one forwarded request.
func (f *fake) pod(c *net.TCPConn, node string) {
	seq, ok := readSeq(c)
	if !ok {
		return
	}
	ans := server.Answer{Seq: seq, Pod: "echo-" + node, UID: node, Node: node}
	code := "200 OK"
	switch do := f.script(seq); do {
	case drain:
		ans.Terminating = true
	case dawdle:
		time.Sleep(slowBy)
	case miss:
		time.Sleep(missBy)
	case stall:
		io.Copy(io.Discard, c) // until the LB gives up
		return
	case resetAtOnce:
		c.SetLinger(0)
		return
	case hangUp:
		return
	case app500:
		code = "500 Internal Server Error"
	case app404:
		code = "404 Not Found"
	case garble:
		ans.Seq++
	case impostor:
		ans.Node = nodeOf(seq + 1)
	case truncate, resetInBody:
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"seq\":")
		if do == resetInBody {
			f.delivered(c)
			c.SetLinger(0)
		}
		return
	}
	answer(f.t, c, code, ans)
}

// delivered waits until the peer's kernel has everything: what it has it gives to who reads before it tells
// of a RST.
func (f *fake) delivered(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		f.t.Error(err)
		return
	}
	for left := 1; left > 0; time.Sleep(time.Millisecond) {
		if err := raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil {
			return // closed for its age, which finish reports
		}
	}
}

// wake makes a listener answer that was silent, as a healthy pod. The SYNs that it
// dropped come again.
func wake(t *testing.T, s *netns.Silent) {
	l, err := net.FileListener(s.File) // of a copy
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { l.Close() })
	s.Wake()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.SetDeadline(time.Now().Add(patience))
		if seq, ok := readSeq(c); ok { // who filled the queue sends nothing
			answer(t, c, "200 OK", server.Answer{Seq: seq, Node: "n1"})
		}
		c.Close()
	}
}

func answer(t *testing.T, c net.Conn, code string, a server.Answer) {
	b, err := json.Marshal(a)
	if err != nil {
		t.Error(err)
	}
	fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", code, len(b), b)
}

// attempts runs the probe until it has made n attempts.
func attempts(t *testing.T, cfg probe.Config, n int) []record.Attempt {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []record.Attempt
	if err := probe.Run(ctx, cfg, func(a record.Attempt) {
		if got = append(got, a); a.Seq >= n-1 {
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	kept := got[:0]
	for _, a := range got { // a few more may have started before the end was seen
		if a.Seq < n {
			kept = append(kept, a)
		}
	}
	return kept
}
