package ebpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// A TCP socket that was led to an endpoint which is gone waits for it as long as TCP does. Config.ResetTCP has
// it reset: sock_diag shows with each socket what the programs keep of it (INET_DIAG_SK_BPF_STORAGES, Linux 5.7),
// and so which were led by a Service.

// The attributes of linux/inet_diag.h and linux/sock_diag.h.
const (
	diagRequestStorages = 2  // INET_DIAG_REQ_SK_BPF_STORAGES
	diagRequestMap      = 1  // SK_DIAG_BPF_STORAGE_REQ_MAP_FD
	diagStorages        = 20 // INET_DIAG_SK_BPF_STORAGES
	diagStorage         = 1  // SK_DIAG_BPF_STORAGE
	diagStorageValue    = 3  // SK_DIAG_BPF_STORAGE_MAP_VALUE
)

// resets ends TCP sockets whose endpoint has been gone for Config.ResetTCP, until ctx ends.
func (t *Target) resets(ctx context.Context) error {
	if t.cfg.ResetTCP == 0 {
		return nil
	}
	if t.cfg.Cgroup == "" {
		t.log.Warn("no TCP connection is reset: there are no programs at sockets")
		return nil
	}
	stay := complaint{log: t.log, about: "TCP connections may stay with endpoints that are gone"}
	for {
		due, next := t.named.due(time.Now(), t.cfg.ResetTCP)
		if len(due) > 0 {
			err := t.reset(due)
			stay.say(err)
			if err == nil {
				t.named.done(due)
			} else {
				next = sweepEvery // or with the next change
			}
		}
		var more <-chan time.Time
		if next > 0 {
			more = time.After(next)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.named.left:
		case <-more:
		}
	}
}

// reset ends the TCP sockets of the node, and of pods whose namespaces it may enter, that were led to these
// endpoints. One that has come back meanwhile has connections that are new.
func (t *Target) reset(gone map[netip.AddrPort]bool) error {
	peers, err := t.peers()
	if err != nil || peers == nil {
		return err
	}
	defer peers.Close()
	ended := 0
	each := func(netns int) error {
		n, err := resetSockets(netns, peers, func(a netip.AddrPort) bool { return gone[a] && t.named.isGone(a) })
		ended += n
		return err
	}
	err = each(t.cfg.NetNS)
	if t.cfg.PodSpaces != "" {
		err = errors.Join(err, eachPod(t.cfg.PodSpaces, each))
	}
	if ended > 0 {
		t.log.Info("TCP connections were reset whose endpoint is gone", "sockets", ended)
	}
	return err
}

// peers is a second descriptor of what the programs keep of sockets; nil without programs at sockets.
func (t *Target) peers() (*ebpf.Map, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.socks == nil {
		return nil, nil
	}
	m, err := t.objs.PlumbPeers.Clone()
	if err != nil {
		return nil, fmt.Errorf("look for TCP sockets whose endpoint is gone: %w", err)
	}
	return m, nil
}

// resetSockets ends TCP sockets of a namespace that were led to one of these endpoints; what was connected
// to it straight is left alone.
func resetSockets(netns int, peers *ebpf.Map, gone func(netip.AddrPort) bool) (ended int, err error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, &netlink.Config{NetNS: netns})
	if err != nil {
		return 0, fmt.Errorf("reset sockets: %w", err)
	}
	defer conn.Close()
	attrs := netlink.NewAttributeEncoder()
	attrs.Nested(diagRequestStorages, func(in *netlink.AttributeEncoder) error {
		in.Uint32(diagRequestMap, uint32(peers.FD()))
		return nil
	})
	which, err := attrs.Encode()
	if err != nil {
		return 0, fmt.Errorf("reset sockets: ask for them: %w", err)
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		all, failed := conn.Execute(netlink.Message{
			Header: netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | netlink.Dump},
			Data:   append(diagRequest(family, unix.IPPROTO_TCP, nil), which...),
		})
		if failed != nil {
			return ended, errors.Join(err, fmt.Errorf("reset sockets: list them: %w", failed))
		}
		for _, m := range all {
			id, to, failed := led(m.Data, family)
			if failed != nil {
				return ended, errors.Join(err, fmt.Errorf("reset sockets: read what they were led to: %w", failed))
			}
			if !gone(to) {
				continue
			}
			switch failed := endSocket(conn, family, unix.IPPROTO_TCP, id); {
			case failed == nil:
				ended++
			case !errors.Is(failed, unix.ENOENT) && err == nil:
				err = fmt.Errorf("reset a socket: %w", failed)
			}
		}
	}
	return ended, err
}

// led is a socket that was led to an endpoint and is connected to it; the zero endpoint for others.
func led(answer []byte, family uint8) (id socketID, to netip.AddrPort, err error) {
	if id = answered(answer); id == nil {
		return nil, to, nil
	}
	attrs, err := netlink.NewAttributeDecoder(answer[sizeofAnswer:])
	if err != nil {
		return nil, to, err
	}
	var p plumbPeer
	for attrs.Next() {
		if attrs.Type() == diagStorages {
			attrs.Nested(func(in *netlink.AttributeDecoder) error { return readPeer(in, &p) })
		}
	}
	if at := (place{p.Addr, p.Port}); p.Port != 0 && at == id.to(family) {
		to = netip.AddrPortFrom(fromAddr(at.addr), swapped(at.port))
	}
	return id, to, attrs.Err()
}

// readPeer reads what a map keeps of a socket, if it keeps something.
func readPeer(in *netlink.AttributeDecoder, p *plumbPeer) error {
	for in.Next() {
		if in.Type() != diagStorage {
			continue
		}
		in.Nested(func(in *netlink.AttributeDecoder) error {
			for in.Next() {
				if in.Type() == diagStorageValue {
					in.Do(func(b []byte) error {
						_, err := binary.Decode(b, binary.NativeEndian, p)
						return err
					})
				}
			}
			return nil
		})
	}
	return nil
}
