//go:build linux

package dptest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// A client that gets no processor before it sends and before it reads, for longer
// than silence lasts, finds what is so: only what is dropped is dropped.
func TestStarvedIsNotSilent(t *testing.T) {
	n := netByHand(t)
	n.starve = func() { time.Sleep(4 * silence(objects.UDP)) }
	for _, line := range []string{
		"outside tcp 203.0.113.1:81 pass",
		"outside udp 10.97.0.1:53 pass",
		"outside udp 10.96.0.1:53 10.244.2.2:1053",
		"outside sctp 10.97.0.1:7 pass",
		"pod-a tcp 10.96.0.9:80 reject",
		"pod-a udp 10.96.0.9:80 reject",
		"pod-a udp [fd00:10:96::9]:80 reject",
		"pod-a tcp 10.96.0.8:80 drop",
		"pod-a udp 10.96.0.8:80 drop",
		"pod-a sctp 10.96.0.8:7 drop",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			row, err := parseRow(line)
			if err != nil {
				t.Fatal(err)
			}
			servers, err := n.Serve(t.Context(), []Row{row})
			if err != nil {
				t.Fatal(err)
			}
			defer servers.Close()
			err = n.attempts(t.Context(), row, func(attempt func() (answer, error)) error {
				a, err := attempt()
				if want := row.Action; err == nil && a.action != want && !(want == "" && a.server == row.To) {
					t.Errorf("%+v", a)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// judged is the verdict on a packet whose sender never reads: nil where there is
// none for as long as is waited.
func judged(t *testing.T, n *Net, to netip.AddrPort, p objects.Protocol, send bool, wait time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	f := &flight{proto: p}
	kind := syscall.SOCK_STREAM
	if p == objects.UDP {
		kind = syscall.SOCK_DGRAM
	}
	var fd int
	err := n.Place(Outside).Do(func() (err error) {
		if fd, err = syscall.Socket(syscall.AF_INET, kind|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0); err != nil || !send {
			return err
		}
		err = syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
		if errors.Is(err, syscall.EINPROGRESS) {
			return nil
		}
		if err == nil && p == objects.UDP {
			_, err = syscall.Write(fd, []byte("who"))
			f.written.Store(true)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := f.control("", "", rawFD(fd)); err != nil {
		t.Fatal(err)
	}
	cpu, err := anyCPU()
	if err != nil {
		t.Fatal(err)
	}
	return n.judgeSilence(ctx, cpu, Outside, f, to.Addr())
}

// rawFD is a socket whose owner does nothing with it.
type rawFD int

func (fd rawFD) Control(f func(uintptr)) error { f(uintptr(fd)); return nil }
func (rawFD) Read(func(uintptr) bool) error    { return net.ErrClosed }
func (rawFD) Write(func(uintptr) bool) error   { return net.ErrClosed }

// The judge asks the kernel: what is unsent, made, refused or answered is not
// silent, though nobody has seen it.
func TestJudgeAsksTheKernel(t *testing.T) {
	n := netByHand(t)
	at := netip.MustParseAddrPort
	servers, err := n.Serve(t.Context(), []Row{{Proto: objects.TCP, To: at("10.97.0.1:80")}, {Proto: objects.UDP, To: at("10.97.0.1:53")}})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	for _, tc := range []struct {
		name   string
		proto  objects.Protocol
		to     string
		send   bool
		silent bool
	}{
		{"unsent", objects.TCP, "10.97.0.1:80", false, false},
		{"connected", objects.TCP, "10.97.0.1:80", true, false},
		{"refused", objects.TCP, "10.97.0.1:81", true, false},
		{"dropped", objects.TCP, "10.96.0.8:80", true, true},
		{"not written", objects.UDP, "10.97.0.1:53", false, false},
		{"answered", objects.UDP, "10.97.0.1:53", true, false},
		{"refused", objects.UDP, "10.96.0.9:53", true, false},
		{"dropped", objects.UDP, "10.96.0.8:53", true, true},
	} {
		t.Run(tc.proto.String()+" "+tc.name, func(t *testing.T) {
			t.Parallel()
			wait := 2 * time.Second
			if tc.silent {
				wait = time.Minute
			}
			err := judged(t, n, at(tc.to), tc.proto, tc.send, wait)
			if errors.Is(err, errSilent) != tc.silent || err != nil && !tc.silent {
				t.Errorf("judged %v", err)
			}
		})
	}
}

// A server that takes three times as long as silence lasts is slow, not silent,
// though controls are answered at once.
func TestSlowIsNotSilent(t *testing.T) {
	n := NewNet(t)
	n.think = 3 * silence(objects.UDP) // the controls' servers are there
	to := netip.MustParseAddrPort("10.97.0.1:53")
	servers, err := n.Serve(t.Context(), []Row{{Proto: objects.UDP, To: to}})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	begin := time.Now()
	var got answer
	err = n.attempts(t.Context(), Row{From: Outside, Proto: objects.UDP, To: to}, func(attempt func() (answer, error)) (err error) {
		got, err = attempt()
		return err
	})
	if err != nil || got.server != to {
		t.Errorf("after %v: %+v, %v", time.Since(begin), got, err)
	}
}

// So is a program of the node, such as a proxy, that lets packets wait three times as long before it
// reads them. This one answers before it takes the packet from its queue: else it would have to answer
// within the time of silence after that.
func TestSlowProxyIsNotSilent(t *testing.T) {
	n := NewNet(t)
	at := netip.AddrPortFrom(Self.Addrs()[0], 53)
	var conn net.PacketConn
	err := n.Node.Do(func() (err error) {
		conn, err = net.ListenPacket("udp4", at.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var from unix.Sockaddr
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			_, from, failed = unix.Recvfrom(int(fd), make([]byte, 64), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			return !errors.Is(failed, unix.EAGAIN)
		})
		time.Sleep(3 * silence(objects.UDP)) // what is to be told from silence
		if err = errors.Join(err, failed); err == nil {
			sa := from.(*unix.SockaddrInet4)
			client := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)))
			_, err = conn.WriteTo([]byte(at.String()+" "+client.String()), client)
		}
		_, _, failed = conn.ReadFrom(make([]byte, 64))
		done <- errors.Join(err, failed)
	}()
	var got answer
	err = n.attempts(t.Context(), Row{From: Outside, Proto: objects.UDP, To: at}, func(attempt func() (answer, error)) (err error) {
		got, err = attempt()
		return err
	})
	if err != nil || got.server != at {
		t.Errorf("%+v, %v", got, err)
	}
	if err := errors.Join(<-done, conn.Close()); err != nil {
		t.Error(err)
	}
}

// A server that holds a packet unanswered is waited for.
func TestIdleWaitsForServers(t *testing.T) {
	n := NewNet(t)
	n.think = 3 * silence(objects.UDP)
	to := netip.MustParseAddrPort("10.97.0.1:53")
	servers, err := n.Serve(t.Context(), []Row{{Proto: objects.UDP, To: to}})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	err = n.Place(Outside).Do(func() error {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "udp4", to.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("who")); err != nil {
			return err
		}
		if err := n.idle(t.Context()); err != nil {
			return err
		}
		f := &flight{proto: objects.UDP}
		f.written.Store(true)
		raw, err := conn.(*net.UDPConn).SyscallConn()
		if err != nil {
			return err
		}
		_ = f.control("", "", raw)
		return await(t.Context(), "no answer", func() bool { return f.phase() == answered })
	})
	if err != nil {
		t.Error(err)
	}
}

// What befalls a row after it was forwarded says what the kernel knows. The second SYN of the third
// connection is dropped as well: where a control is slow it is sent before the verdict.
func TestLossNamesTheKernel(t *testing.T) {
	n := netByHand(t)
	err := n.Node.Do(func() error {
		return exec.CommandContext(t.Context(), "nft", "insert", "rule", "inet", "byhand", "refusals",
			"ip", "daddr", "10.97.0.2", "ct", "state", "new", "numgen", "inc", "mod", "1000", ">", "1", "drop").Run()
	})
	if err != nil {
		t.Fatal(err)
	}
	row, err := parseRow("pod-a tcp 10.97.0.2:80 pass")
	if err != nil {
		t.Fatal(err)
	}
	err = n.Check(t.Context(), &plan.Plan{}, []Row{row}, &Memory{})
	for _, want := range []string{`then "drop"`, "TCP state 2, ", "insert_failed 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

// A processor whose controls take as long as a wait, or a good part of it, has stood still for all that is known.
func TestAllRun(t *testing.T) {
	n := NewNet(t)
	like := netip.MustParseAddr("10.96.0.8")
	for _, proto := range []objects.Protocol{objects.TCP, objects.UDP} {
		for wait, want := range map[time.Duration]bool{time.Minute: true, time.Nanosecond: false} {
			if all, err := n.allRun(t.Context(), Outside, proto, like, wait); err != nil || all != want {
				t.Errorf("%s, after a wait of %s: %t, %v", proto, wait, all, err)
			}
		}
	}
}
