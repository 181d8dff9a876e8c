package ebpf_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	bpf "github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// mangler gives frames to the programs of a node that serves some Services and has connections.
type mangler struct {
	*world
	plan    *plan.Plan
	program [2]*bpf.Program // ingress and egress
	devices map[string]netlink.LinkAttrs
	opening []crossing
	whole   []crossing
}

func newMangler(t testing.TB) *mangler {
	t.Helper()
	p := planOf(mangledFor()...)
	p.Node.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/108")}
	m := &mangler{world: newWorld(t, p, nil), plan: p, devices: map[string]netlink.LinkAttrs{}, opening: opening(), whole: whole()}
	for i, name := range []string{"plumb_ingress", "plumb_egress"} {
		m.program[i] = m.world.program(name)
		t.Cleanup(func() { _ = m.program[i].Close() })
	}
	m.in(m.Node, func() error {
		all, err := netlink.LinkList()
		for _, l := range all {
			m.devices[l.Attrs().Name] = *l.Attrs()
		}
		return err
	})
	return m
}

// The last words of a script: what is done with the packet beside changing it.
const (
	otherStep  = 1 << iota // it goes out where it would come in, or the other way round
	tagged                 // with a VLAN tag
	asOther                // IPv4 that says it is IPv6, or the other way round
	asOneMeant             // with the length that it has, and right checksums
)

// FuzzFrames: whatever is at a device, no program sends it where the plan and its connections do not,
// and what it sends on is as whole as it was. A script is the number of a packet, what else is done
// with it, and three bytes for each change.
func FuzzFrames(f *testing.F) {
	m := newMangler(f)
	for i := range m.whole {
		f.Add([]byte{byte(i), 0})
		f.Add([]byte{byte(i), 0, sumNone, 0, 0})
		for how := range byte(manglings) {
			f.Add([]byte{byte(i), asOneMeant, how, 41, 1, how, 23, 8})
		}
		for _, also := range []byte{otherStep, tagged, asOther} {
			f.Add([]byte{byte(i), also})
		}
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) < 2 || len(script) > 32 {
			return
		}
		c := m.whole[int(script[0])%len(m.whole)]
		also := script[1]
		for rest := script[2:]; len(rest) >= 3; rest = rest[3:] {
			c.packet = mangled(c.packet, rest[0], rest[1], rest[2])
		}
		if also&asOneMeant != 0 {
			c.packet = mangled(mangled(c.packet, rightLength, 0, 0), sumAgain, 0, 0)
		}
		if also&otherStep != 0 {
			c.egress = !c.egress
		}
		if err := m.check(c, also); err != nil {
			t.Errorf("%s, at %s, egress %t:\n%s%v", c.name, c.device, c.egress, hex.Dump(c.packet), err)
		}
	})
}

// Packets that end anywhere, and say so or not.
func TestCutPackets(t *testing.T) {
	t.Parallel()
	m := newMangler(t)
	for _, c := range m.whole {
		all := c.packet
		for n := range all {
			for _, honest := range []bool{false, true} {
				if c.packet = all[:n]; honest {
					c.packet = mangled(mangled(c.packet, rightLength, 0, 0), sumAgain, 0, 0)
				}
				if err := m.check(c, 0); err != nil {
					t.Errorf("%s, %d of %d bytes, honest %t: %v", c.name, n, len(all), honest, err)
				}
			}
		}
	}
}

// Datagrams without a checksum, as UDP may have over IPv4 (RFC 768) and tunnels over IPv6 (RFC 6936):
// they stay without, and what a device has summed up follows their ports.
func TestWithoutChecksum(t *testing.T) {
	t.Parallel()
	m := newMangler(t)
	for _, c := range m.whole {
		with := c.packet
		if c.packet = mangled(with, sumNone, 0, 0); string(c.packet) == string(with) {
			continue
		}
		if err := m.check(c, 0); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// check sends a packet through the node, after those that begin the connections, and judges.
func (m *mangler) check(c crossing, also byte) error {
	if err := ebpf.Forget(m.cfg.Pins); err != nil {
		return err
	}
	return m.Node.Do(func() error {
		j := newJudge(m.plan)
		for _, o := range append(m.opening[:len(m.opening):len(m.opening)], c) {
			if h, ok := headersOf(o.packet); ok {
				j.clients[h.src] = true
			}
		}
		for _, o := range m.opening {
			if _, _, err := m.cross(j, o, 0); err != nil {
				return fmt.Errorf("%s to begin with: %w", o.device, err)
			}
		}
		verdict, out, err := m.cross(j, c, also)
		if err != nil || verdict != passes || c.egress {
			return err
		}
		_, _, err = m.cross(j, crossing{"", "world", true, out}, also)
		if err != nil {
			return fmt.Errorf("when it leaves: %w", err)
		}
		return nil
	})
}

func (m *mangler) cross(j *judge, c crossing, also byte) (verdict int, out []byte, err error) {
	v6 := len(c.packet) > 0 && c.packet[0]>>4 == 6
	head, step := ethernet(m.devices[c.device].HardwareAddr, v6 != (also&asOther != 0)), 0
	if also&tagged != 0 {
		head = append(head[:12:12], append([]byte{0x81, 0, 0, 7}, head[12:]...)...)
	}
	if c.egress {
		step = 1
	}
	verdict, frame, err := crosses(m.program[step], m.devices[c.device].Index, append(head[:len(head):len(head)], c.packet...))
	if errors.Is(err, unix.EINVAL) && len(c.packet) < 40 {
		return isDropped, nil, nil // the kernel tries none that is as short as that
	}
	if err != nil {
		return 0, nil, err
	}
	if len(frame) < len(head) {
		return 0, nil, fmt.Errorf("of the frame are %d bytes left", len(frame))
	}
	out = frame[len(head):]
	if also&(tagged|asOther) != 0 {
		if verdict != passes || string(frame[len(head):]) != string(c.packet) {
			err = fmt.Errorf("it is not what the frame says, and the verdict is %d", verdict)
		}
		return verdict, out, err
	}
	return verdict, out, j.crossed(c.egress, c.packet, verdict, out)
}
