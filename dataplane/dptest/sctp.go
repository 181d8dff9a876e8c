//go:build linux

package dptest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// SCTP is spoken by hand over raw sockets, so that it needs no SCTP in the kernel,
// only its conntrack: the client sends an INIT (RFC 9260 section 3.3.2), the
// server notes by its tag where it arrived and answers with an INIT ACK. A kernel
// that has SCTP answers with an ABORT before that; either shows that answers find
// their way back.
const (
	chunkInit    = 1
	chunkInitAck = 2
	sctpHeader   = 12 // ports, verification tag, CRC-32C
	initChunk    = 20
)

// inits are the INITs under way, by tag.
type inits struct {
	mu      sync.Mutex
	arrived map[uint32]chan answer // guarded by mu
}

func (i *inits) expect(tag uint32) chan answer {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.arrived == nil {
		i.arrived = map[uint32]chan answer{}
	}
	c := make(chan answer, 1)
	i.arrived[tag] = c
	return c
}

func (i *inits) forget(tag uint32) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.arrived, tag)
}

func (i *inits) note(tag uint32, a answer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case i.arrived[tag] <- a: // never, if nobody expects it: the channel is nil
	default:
	}
}

// answer is a server's work.
func (i *inits) answer(packet []byte, from net.Addr, at netip.AddrPort) []byte {
	if len(packet) < sctpHeader+initChunk || packet[sctpHeader] != chunkInit || binary.BigEndian.Uint16(packet[2:]) != at.Port() {
		return nil
	}
	client, _ := netip.ParseAddr(from.String())
	tag := binary.BigEndian.Uint32(packet[sctpHeader+4:])
	i.note(tag, answer{action: reachedServer, server: at, client: client})
	return sctpPacket(chunkInitAck, at.Port(), binary.BigEndian.Uint16(packet), tag)
}

// sctpPacket is one with an INIT or INIT ACK; the tag is the client's.
func sctpPacket(chunk byte, from, to uint16, tag uint32) []byte {
	b := binary.BigEndian.AppendUint16(nil, from)
	b = binary.BigEndian.AppendUint16(b, to)
	own := tag
	if chunk == chunkInitAck {
		b = binary.BigEndian.AppendUint32(b, tag) // the receiver's
		own = tag ^ 1<<31 | 1                     // the server's
	} else {
		b = binary.BigEndian.AppendUint32(b, 0)
	}
	b = append(b, 0, 0, 0, 0, chunk, 0, 0, initChunk)
	b = binary.BigEndian.AppendUint32(b, own)
	b = binary.BigEndian.AppendUint32(b, 1<<16) // window
	b = append(b, 0, 1, 0, 1)                   // one stream each way
	b = binary.BigEndian.AppendUint32(b, 1)     // first sequence number
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// sctp sends one INIT and awaits both its arrival and what comes back.
func (n *Net) sctp(f *flight, conn *net.IPConn, from uint16, to netip.AddrPort) (answer, error) {
	tag := rand.Uint32() | 1
	arrived := n.inits.expect(tag)
	f.arrived.Store(&arrived)
	defer n.inits.forget(tag)
	if _, err := conn.Write(sctpPacket(chunkInit, from, to.Port(), tag)); err != nil && !errors.Is(err, syscall.EPERM) {
		return answer{}, err
	}
	f.written.Store(true)
	f.pause()
	buf := make([]byte, 256)
	for {
		k, _, err := conn.ReadFrom(buf)
		if err != nil {
			return answer{}, err
		}
		if k >= sctpHeader && binary.BigEndian.Uint16(buf[2:]) == from && binary.BigEndian.Uint32(buf[4:]) == tag {
			select {
			case a := <-arrived:
				return a, nil
			case <-time.After(broken):
				return answer{}, fmt.Errorf("answered, but no server noted the INIT")
			}
		}
	}
}
