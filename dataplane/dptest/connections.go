//go:build linux

package dptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Connections holds TCP connections to an endpoint of a Service, of each family,
// while rules change: other Services come and go, other endpoints come, their own
// terminates and is gone, and so is the Service. Then the Target ends and another
// one takes over. None may break, and between the two the rules that are left
// serve new connections. It needs root.
func Connections(t *testing.T, b Backend) {
	n := b.place(t)
	fd := n.FD()
	defer func() { _ = b.Clean(fd) }() // whatever a failure left
	last, next := connectedPlan(serves, 1, 2), connectedPlan(serves, 2, 3)
	var open connections
	defer func() { open.close() }()
	alive := t.Run("live", func(t *testing.T) {
		target, old := b.New(t, fd), connectedPlan(serves, 0, 0)
		apply(t, target, nil, old)
		all := connectedRows(old)
		rows := b.rows(old, all)
		b.unasked(t, len(all), len(rows), b.Unasked.Connections)
		open.begin(t, n, rows)
		for _, c := range []struct {
			when string
			plan *plan.Plan
		}{
			{"other Services came", connectedPlan(serves, 0, 3)},
			{"one of them went", connectedPlan(serves, 0, 2)},
			{"other endpoints came", connectedPlan(serves, 3, 2)},
			{"their endpoint terminated", connectedPlan(terminates, 3, 2)},
			{"their endpoint was gone", connectedPlan(gone, 3, 2)},
			{"no endpoint was left", connectedPlan(gone, 0, 2)},
			{"their Service was gone", connectedBuild(&objects.Snapshot{})},
			{"everything was back", last},
		} {
			apply(t, target, old, c.plan)
			open.talk(t, c.when)
			old = c.plan
		}
	})
	if !alive || b.EndsConnections != "" {
		return
	}
	open.talk(t, "the Target had ended")
	if err := n.Check(t.Context(), last, b.rows(last, connectedRows(last)), &Memory{}); err != nil {
		t.Errorf("new connections after the Target had ended:\n%v", err)
	}
	target := b.New(t, fd)
	apply(t, target, nil, next)
	open.talk(t, "another Target had taken over")
	apply(t, target, next, connectedPlan(serves, 0, 2))
	open.talk(t, "its first change")
}

// fate is what became of the endpoint that connections were made to.
type fate int

const (
	serves fate = iota
	terminates
	gone
)

// connectedPlan has a Service whose first endpoint has this fate, with so many
// others, and so many other Services.
func connectedPlan(held fate, others, services int) *plan.Plan {
	snap := &objects.Snapshot{}
	connectedService(snap, 0, held, others)
	for i := range services {
		connectedService(snap, 1+i, serves, others)
	}
	return connectedBuild(snap)
}

func connectedBuild(snap *objects.Snapshot) *plan.Plan {
	node := Node()
	snap.Apply(objects.Change{Node: &node})
	return plan.Build(snap, defaults())
}

// connectedService adds a Service of both families, served on the other node.
func connectedService(snap *objects.Snapshot, number int, first fate, others int) {
	name := named("web-", number)
	snap.Apply(objects.Change{Service: &objects.Service{
		Name: name, Type: objects.NodePort, Internal: objects.Cluster, External: objects.Cluster,
		ClusterIPs: []netip.Addr{nth("10.96.3.0", number), nth("fd00:10:96::300", number)},
		Ports:      []objects.ServicePort{{Protocol: objects.TCP, Port: 80, NodePort: uint16(30080 + number)}},
	}})
	sl := objects.EndpointSlice{Name: name, Service: name, Ports: []objects.SlicePort{{Protocol: objects.TCP, Port: 8080}}}
	for i := range 1 + others {
		for _, a := range Remote.Addrs() {
			e := objects.Endpoint{Addr: nth(a.String(), i), Node: "there", Ready: true, Serving: true}
			if i == 0 {
				e.Ready, e.Terminating = first == serves, first == terminates
			}
			if i > 0 || first != gone {
				sl.Endpoints = append(sl.Endpoints, e)
			}
		}
	}
	snap.Apply(objects.Change{Slice: &sl})
}

// nth is an address and so many on.
func nth(first string, n int) netip.Addr {
	a := netip.MustParseAddr(first)
	for range n {
		a = a.Next()
	}
	return a
}

// connectedRows are the ways that connections take: by ClusterIP and node port,
// with the source kept and replaced, and from the node itself.
func connectedRows(p *plan.Plan) []Row {
	rows := []Row{
		{From: PodB, To: netip.MustParseAddrPort("10.96.3.0:80")},
		{From: PodB, To: netip.MustParseAddrPort("[fd00:10:96::300]:80")},
		{From: Self, To: netip.MustParseAddrPort("10.96.3.0:80")},
		{From: Outside, To: netip.MustParseAddrPort("192.0.2.1:30080")},
		{From: Outside, To: netip.MustParseAddrPort("[2001:db8:2::1]:30080")},
	}
	for i := range rows {
		rows[i].Proto = objects.TCP
		rows[i] = rows[i].Resolve(p)
		rows[i].Line = fmt.Sprintf("%s %s %s", rows[i].From, rows[i].Proto, rows[i].To)
	}
	return rows
}

// conversation is an open connection.
type conversation interface {
	talk() error // sends something each way
	close()
}

// connections are those of a test, by the row they follow.
type connections struct {
	rows []Row
	open []conversation
}

func (c *connections) begin(t *testing.T, n kernel, rows []Row) {
	t.Helper()
	c.rows = rows
	var err error
	if c.open, err = n.Hold(t.Context(), c.rows); err != nil {
		t.Fatal(err)
	}
	c.talk(t, "they began")
}

func (c *connections) talk(t *testing.T, when string) {
	t.Helper()
	for i, open := range c.open {
		if err := open.talk(); err != nil {
			t.Fatalf("%s: after %s the connection broke: %v", c.rows[i].Line, when, err)
		}
	}
}

func (c *connections) close() {
	for _, open := range c.open {
		open.close()
	}
}

// pair is both ends of a connection.
type pair struct{ client, server net.Conn }

// Hold opens a connection for each row, to its only destination.
func (n *Net) Hold(ctx context.Context, rows []Row) (open []conversation, err error) {
	servers := map[netip.AddrPort]*net.TCPListener{}
	defer func() {
		for _, ln := range servers {
			err = errors.Join(err, ln.Close())
		}
	}()
	for _, r := range rows {
		if len(r.Dests) != 1 {
			return open, fmt.Errorf("%s: %d destinations, want one", r.Line, len(r.Dests))
		}
		at := r.Dests[0].At
		if servers[at] == nil {
			if servers[at], err = n.listenAt(ctx, at); err != nil {
				return open, fmt.Errorf("%s: serve %s: %w", r.Line, at, err)
			}
		}
		c, err := n.connectTo(ctx, r, servers[at])
		if err != nil {
			return open, fmt.Errorf("%s: connect: %w", r.Line, err)
		}
		open = append(open, c)
	}
	return open, nil
}

func (n *Net) listenAt(ctx context.Context, at netip.AddrPort) (ln *net.TCPListener, err error) {
	err = n.bind(ctx, at.Addr(), func() (err error) {
		ln, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		return err
	})
	return ln, err
}

func (n *Net) connectTo(ctx context.Context, r Row, ln *net.TCPListener) (c pair, err error) {
	err = n.As(r.From, func() (err error) {
		c.client, err = (&net.Dialer{Timeout: broken, KeepAlive: -1}).DialContext(ctx, network(r.Proto, r.To.Addr()), r.To.String())
		return err
	})
	if err != nil {
		return c, err
	}
	if err = ln.SetDeadline(time.Now().Add(broken)); err == nil {
		c.server, err = ln.Accept()
	}
	if err != nil {
		return c, errors.Join(err, c.client.Close())
	}
	return c, nil
}

func (c pair) talk() error {
	for _, way := range [][2]net.Conn{{c.client, c.server}, {c.server, c.client}} {
		if _, err := way[0].Write([]byte("x")); err != nil {
			return err
		}
		if err := way[1].SetReadDeadline(time.Now().Add(broken)); err != nil {
			return err
		}
		if _, err := io.ReadFull(way[1], make([]byte, 1)); err != nil {
			return err
		}
	}
	return nil
}

func (c pair) close() {
	for _, end := range []net.Conn{c.client, c.server} {
		_ = end.(*net.TCPConn).SetLinger(0) // no FIN is sent again in what comes next
		_ = end.Close()
	}
}
