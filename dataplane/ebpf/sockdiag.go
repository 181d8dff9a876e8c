package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What linux/sock_diag.h and linux/inet_diag.h have: a request (inet_diag_req_v2) is family, protocol,
// two bytes, states and a socket's id; an answer (inet_diag_msg) four bytes, the id and more. The id
// (inet_diag_sockid) is two ports and two addresses of 16 bytes as they are on the wire, a device, and
// the cookie in two halves, the lower one first.
const (
	sockDiagByFamily = 20
	sockDestroy      = 21
	sizeofID         = 48
	atID             = 8 // in a request
	atIDAnswered     = 4
	sizeofAnswer     = 72
)

// States of a socket (net/tcp_states.h), as a request has them: of UDP what is connected, of TCP all in which
// a side still has something to say, or waits for its first answer.
const (
	connectedUDP = 1 << 1
	// TCP_ESTABLISHED, _SYN_SENT, _FIN_WAIT1, _FIN_WAIT2, _CLOSE_WAIT, _LAST_ACK, _CLOSING
	connectedTCP = 1<<1 | 1<<2 | 1<<4 | 1<<5 | 1<<8 | 1<<9 | 1<<11
)

// socketID is one of sock_diag's.
type socketID []byte

func (id socketID) cookie() uint64 {
	return uint64(binary.NativeEndian.Uint32(id[40:])) | uint64(binary.NativeEndian.Uint32(id[44:]))<<32
}

// to is whom a socket of a family is connected to.
func (id socketID) to(family uint8) place {
	a := plumbAddr{}
	for i := range a.W {
		a.W[i] = binary.NativeEndian.Uint32(id[20+4*i:])
	}
	if family == unix.AF_INET {
		a.W = [4]uint32{0, 0, binary.NativeEndian.Uint32([]byte{0, 0, 0xff, 0xff}), a.W[0]}
	}
	return place{a, binary.NativeEndian.Uint16(id[2:])}
}

// answered is the id of the socket that an answer is about; nil: it is none.
func answered(answer []byte) socketID {
	if len(answer) < sizeofAnswer {
		return nil
	}
	return socketID(answer[atIDAnswered : atIDAnswered+sizeofID])
}

func diagRequest(family, proto uint8, id socketID) []byte {
	states := uint32(connectedUDP)
	if proto == unix.IPPROTO_TCP {
		states = connectedTCP
	}
	b := make([]byte, atID+sizeofID)
	b[0], b[1] = family, proto
	binary.NativeEndian.PutUint32(b[4:], states)
	copy(b[atID:], id)
	return b
}

// endSockets ends UDP sockets of a namespace, by their cookies, that are connected to these places; one
// that is not, any more or yet, is left alone. stay are those of this namespace that the kernel did not end, with the
// first reason.
func endSockets(netns int, which map[uint64]place) (ended, stay int, err error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, &netlink.Config{NetNS: netns})
	if err != nil {
		return 0, len(which), fmt.Errorf("end sockets: %w", err)
	}
	defer conn.Close()
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		all, failed := conn.Execute(netlink.Message{
			Header: netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | netlink.Dump},
			Data:   diagRequest(family, unix.IPPROTO_UDP, nil),
		})
		if failed != nil {
			return ended, len(which) - ended, fmt.Errorf("end sockets: list them: %w", failed)
		}
		for _, m := range all {
			id := answered(m.Data)
			if id == nil {
				continue
			}
			if to, wanted := which[id.cookie()]; !wanted || to != id.to(family) {
				continue
			}
			switch failed := endSocket(conn, family, unix.IPPROTO_UDP, id); {
			case failed == nil:
				ended++
			case !errors.Is(failed, unix.ENOENT): // it has ended meanwhile
				stay++
				if err == nil {
					err = fmt.Errorf("end a socket: %w", failed)
				}
			}
		}
	}
	return ended, stay, err
}

// endSocket ends the socket with this id, and no other that has its ports by now: the cookie is part of it.
func endSocket(conn *netlink.Conn, family, proto uint8, id socketID) error {
	_, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: sockDestroy, Flags: netlink.Request | netlink.Acknowledge},
		Data:   diagRequest(family, proto, id),
	})
	return err
}
