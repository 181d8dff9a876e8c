package balancer

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/records"
)

// A load balancer that has as many connections as it takes lets others wait, in the queue
// of its socket: not even a log row tells. Of those that it has, each that ends says so.
func TestFull(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "127.77.6.0/24")
	a := newBackend(t, "node-a", "127.78.25.1", true, true)
	svc := testService()
	ip := r.ensure(svc, a)
	r.awaitUp(svc, "node-a", true)
	held := make([]net.Conn, haproxy.MaxConns)
	for n := range held {
		held[n] = dial(t, ip)
		if n == 0 {
			request(t, held[0])
			held[0].Close()
			checkFull(t, r, held[0], false)
			held[0] = dial(t, ip)
		}
	}
	request(t, held[len(held)-1]) // HAProxy has accepted all that came before
	waits := dial(t, ip)
	if err := waits.SetReadDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(waits, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if n, err := waits.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one more: read %d bytes, %v, want to wait", n, err)
	}
	held[1].Close()
	checkFull(t, r, held[1], true)
	if err := waits.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := waits.Read(make([]byte, 1)); err != nil {
		t.Errorf("when there is room: %v", err)
	}
}

// checkFull wants the record of a connection that has ended.
func checkFull(t *testing.T, r *rig, c net.Conn, full bool) {
	t.Helper()
	client := c.LocalAddr().String()
	await(t, func() (string, bool) {
		conns, err := record.ReadFile[record.Conn](filepath.Join(r.records, records.ConnsFile))
		if err != nil {
			return err.Error(), false
		}
		for _, c := range conns {
			if c.Client.String() == client {
				if c.Full != full {
					t.Errorf("record %+v, want full: %v", c, full)
				}
				return "", true
			}
		}
		return "no record of " + client, false
	})
}
