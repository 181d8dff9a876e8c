package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/spaces"
)

// reset ends a TCP connection at both sides. Its own entry has been removed.
func (k *kernel) reset(ctx context.Context, f flow) error {
	client := k.end(ctx, f.src, f.dst)
	endpoint := k.end(ctx, f.from, f.back)
	if err := errors.Join(client, endpoint); err != nil {
		return fmt.Errorf("reset connection %s: %w", f, err)
	}
	return nil
}

// end makes the node answer for peer to victim: a new entry translates between
// peer and a port of the node where nobody listens. Whatever the victim sends to
// peer from now on is refused with the sequence number that it expects itself.
// That it sends something, the node's SYN brings about, which it has from peer:
// a connection that exists answers it with an ACK (RFC 5961, 4.2).
//
// The SYN is an ordinary connect, so no NET_RAW is needed. The port stays bound
// only until the SYN is out; afterwards an answer meets no socket at all.
func (k *kernel) end(ctx context.Context, victim, peer netip.AddrPort) error {
	return spaces.Do(k.netns, func() error {
		from, err := sourceFor(victim)
		if err != nil {
			if unreachable(err) {
				return nil // nor does it reach anybody
			}
			return err
		}
		sock, port, err := bound(from)
		if err != nil {
			return err
		}
		defer unix.Close(sock)
		if err := k.execute(ctx, ctNew, netlink.Create|netlink.Excl, createRequest(netip.AddrPortFrom(from, port), victim, peer)); err != nil {
			if errors.Is(err, unix.EEXIST) {
				return nil // the victim has sent meanwhile, and somebody who knows it not refuses
			}
			return fmt.Errorf("translate between %s and %s: %w", peer, victim, err)
		}
		err = unix.Connect(sock, sockaddr(victim))
		if err != nil && !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.ECONNREFUSED) && !unreachable(err) {
			return fmt.Errorf("knock at %s: %w", victim, err)
		}
		return nil
	})
}

func unreachable(err error) bool {
	return errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH)
}

// sourceFor is the node's address on the way to another: what connect chooses.
func sourceFor(to netip.AddrPort) (netip.Addr, error) {
	sock, err := unix.Socket(int(family(to.Addr().Is6())), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(sock)
	if err := unix.Connect(sock, sockaddr(to)); err != nil {
		return netip.Addr{}, fmt.Errorf("find the way to %s: %w", to, err)
	}
	local, err := localOf(sock)
	return local.Addr(), err
}

// bound is a TCP socket at a free port.
func bound(at netip.Addr) (sock int, port uint16, err error) {
	sock, err = unix.Socket(int(family(at.Is6())), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("open socket: %w", err)
	}
	err = unix.Bind(sock, sockaddr(netip.AddrPortFrom(at, 0)))
	var local netip.AddrPort
	if err == nil {
		local, err = localOf(sock)
	}
	if err != nil {
		_ = unix.Close(sock)
		return 0, 0, fmt.Errorf("bind at %s: %w", at, err)
	}
	return sock, local.Port(), nil
}

func localOf(sock int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(sock)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("read the socket's address: %w", err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("read the socket's address: %T", sa)
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is6() {
		return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// refuseFor is how long the node refuses what the victim sends, if the SYN was
// lost: then its own next packet, within this time, is answered.
const refuseFor = 120 // seconds

// createRequest is the entry of a connection that the node has begun from local
// to victim, and that looks to victim as if it came from peer. Its answers are
// the packets of the connection that is to end. In the state "SYN sent" conntrack
// holds no sequence numbers against anybody and lets such an ACK pass ("may be a
// connection that only we do not know", nf_conntrack_proto_tcp.c).
func createRequest(local, victim, peer netip.AddrPort) []byte {
	port := be16(peer.Port())
	nat := put(nil, v4v6(peer.Addr(), ctaNatV4Min, ctaNatV6Min), peer.Addr().AsSlice())
	nat = put(nat, nested|ctaNatProto, put(nil, ctaNatPortMin, port), put(nil, ctaNatPortMax, port))
	out := append(nfgen(victim.Addr().Is6()), tuple(ctaTupleOrig, objects.TCP, local, victim)...)
	out = append(out, tuple(ctaTupleReply, objects.TCP, victim, local)...)
	out = put(out, ctaTimeout, be32(refuseFor))
	out = put(out, nested|ctaProtoinfo, put(nil, nested|ctaProtoinfoTCP, put(nil, ctaProtoinfoTCPState, []byte{7})))
	return put(out, nested|ctaNatSrc, nat)
}
