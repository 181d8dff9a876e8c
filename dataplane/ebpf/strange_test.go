package ebpf_test

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
)

const (
	icmp4 = objects.Protocol(unix.IPPROTO_ICMP)
	icmp6 = objects.Protocol(unix.IPPROTO_ICMPV6)
)

// icmp is a message of eight bytes and what follows; its checksum is right for IPv4.
func icmp(kind, code byte, rest ...byte) []byte {
	b := append([]byte{kind, code, 0, 0, 0, 0, 0, 0}, rest...)
	sum := ^checksum(b)
	b[2], b[3] = byte(sum>>8), byte(sum)
	return b
}

// A connection stays with an endpoint that is gone, but a SYN has nothing to lose.
func TestSYNMoves(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	syns := frame{device: "pa", src: from(podA), dst: s.vip(false), proto: objects.TCP, flags: syn}
	first, more := w.goes(syns), syns
	if again := w.goes(syns); again != first {
		t.Errorf("a second SYN goes to %s", again)
	}
	apply(t, w.target, planOf(s), planOf(service{number: 1, endpoints: both(3)}))
	more.flags = ack
	if at := w.goes(more); at != first {
		t.Errorf("an open connection goes to %s", at)
	}
	if at := w.goes(syns); at != pod(false, 3) {
		t.Errorf("a SYN goes to %s, want the endpoint that is there", at)
	}
}

// Nothing leaves the node for an address of the Services that no entry translates, whatever it is.
func TestNothingLeaves(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	p := planOf(s)
	p.Node.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/108")}
	w := newWorld(t, p, nil)
	for name, v6 := range families() {
		none, elsewhere, echo := from("10.96.9.9:80"), from("8.8.8.8:80"), icmp4
		unreachable := icmp(3, 1, make([]byte, 40)...)
		if v6 {
			none, elsewhere, echo = from("[fd00:10:96::9:9]:80"), from("[2001:db8:ffff::8]:80"), icmp6
			unreachable = icmp(1, 3, make([]byte, 60)...)
		}
		for what, f := range map[string]frame{
			"TCP":        {proto: objects.TCP, flags: ack},
			"SYN":        {proto: objects.TCP, flags: syn},
			"UDP":        {proto: objects.UDP},
			"ICMP error": {proto: echo, body: unreachable},
			"cut":        {proto: objects.TCP, body: []byte{1, 2, 3, 4}},
			"other":      {proto: unix.IPPROTO_GRE, body: make([]byte, 20)},
			"no end":     {proto: unix.IPPROTO_DSTOPTS, body: []byte{}},
			"no end, AH": {proto: unix.IPPROTO_AH, body: []byte{unix.IPPROTO_FRAGMENT, 0, 0, 0, 0, 0, 0, 0}},
		} {
			f.device, f.src = "world", podAddr(v6)
			for to, want := range map[netip.AddrPort]int{none: isDropped, s.vip(v6): isDropped, elsewhere: passes} {
				f.dst = to
				verdict, _ := w.egress(f)
				verdictOf(t, name+" "+what+" to "+to.String(), verdict, want)
			}
		}
	}
}

// A packet of IPv6 with an address that stands for one of IPv4 is not one of that's connections.
func TestMappedAddresses(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	mapped := func(a netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
	}
	f := frame{device: "pa", src: mapped(from(podA)), dst: mapped(s.vip(false)), proto: objects.UDP}
	verdict, out := w.ingress(f)
	verdictOf(t, "at ingress", verdict, passes)
	if _, dst := out.ends(); dst != f.dst || w.count("new") != 0 {
		t.Errorf("it goes to %s", dst)
	}
}

// What is no echo is not answered by an ICMP error, nor what comes from nobody or from many.
func TestNotRefused(t *testing.T) {
	t.Parallel()
	none := service{number: 2}
	w := newWorld(t, planOf(none), nil)
	for what, c := range map[string]struct {
		f    frame
		want int
	}{
		"echo":            {frame{proto: icmp4, body: icmp(8, 0)}, isSent},
		"echo, IPv6":      {frame{proto: icmp6, body: icmp(128, 0)}, isSent},
		"UDP":             {frame{proto: objects.UDP}, isSent},
		"echo reply":      {frame{proto: icmp4, body: icmp(0, 0)}, isDropped},
		"redirect":        {frame{proto: icmp4, body: icmp(5, 1, make([]byte, 28)...)}, isDropped},
		"solicitation":    {frame{proto: icmp6, body: icmp(135, 0, make([]byte, 16)...)}, isDropped},
		"from nobody":     {frame{proto: objects.UDP, src: from("0.0.0.0:68")}, isDropped},
		"from many":       {frame{proto: objects.UDP, src: from("224.0.0.251:5353")}, isDropped},
		"from all":        {frame{proto: objects.UDP, src: from("255.255.255.255:68")}, isDropped},
		"from nobody, v6": {frame{proto: objects.UDP, src: from("[::]:546")}, isDropped},
		"from many, v6":   {frame{proto: objects.UDP, src: from("[ff02::fb]:5353")}, isDropped},
	} {
		f := c.f
		v6 := f.proto == icmp6 || f.src.IsValid() && f.src.Addr().Is6()
		if f.device, f.dst = "pa", none.vip(v6); !f.src.IsValid() {
			f.src = podAddr(v6)
		}
		verdict, _ := w.ingress(f)
		verdictOf(t, what, verdict, c.want)
	}
}

// What is shorter than it says is no packet: it is neither translated nor answered.
func TestShorterThanItSays(t *testing.T) {
	t.Parallel()
	one, none := service{number: 1, endpoints: both(2)}, service{number: 2}
	w := newWorld(t, planOf(one, none), nil)
	for name, v6 := range families() {
		f := frame{device: "pa", src: podAddr(v6), dst: one.vip(v6), proto: objects.UDP}
		w.goes(f)
		for _, to := range []netip.AddrPort{one.vip(v6), none.vip(v6)} {
			f.dst, f.missing = to, 1
			verdict, _ := w.ingress(f)
			verdictOf(t, name+" to "+to.String(), verdict, isDropped)
		}
	}
	if n := w.count("malformed"); n != 4 {
		t.Errorf("%d packets were malformed, want 4", n)
	}
}

// A SYN with options of the network before TCP is refused by ICMP.
func TestSYNWithOptionsRefused(t *testing.T) {
	t.Parallel()
	none := service{number: 2}
	w := newWorld(t, planOf(none), nil)
	tcp := frame{proto: objects.TCP, flags: syn, src: podAddr(true), dst: none.vip(true)}.transport()
	for name, f := range map[string]frame{
		"ipv4": {src: podAddr(false), dst: none.vip(false), proto: objects.TCP, flags: syn, options: []byte{1, 1, 1, 0}},
		"ipv6": {src: podAddr(true), dst: none.vip(true), proto: unix.IPPROTO_DSTOPTS, body: append([]byte{unix.IPPROTO_TCP, 0, 1, 4, 0, 0, 0, 0}, tcp...)},
	} {
		f.device = "pa"
		verdict, out := w.ingress(f)
		verdictOf(t, name, verdict, isSent)
		ip, proto, message := out.network(), byte(unix.IPPROTO_ICMP), 20
		at := ip[9]
		if f.v6() {
			proto, message, at = unix.IPPROTO_ICMPV6, 40, ip[6]
		}
		if at != proto || ip[message+1] != 3 && ip[message+1] != 4 {
			t.Errorf("%s: the answer is %x", name, ip)
		}
	}
}

// An ICMP error for a masqueraded connection reaches the client and quotes its packet, also if
// that has options or is the first fragment of one; what the device has summed up stays right.
func TestErrorsTranslated(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	for name, c := range map[string]struct {
		client, router netip.AddrPort
		proto          objects.Protocol
		options        []byte
		fragment       uint16
	}{
		"ipv4":                   {from("192.0.2.100:40000"), from("192.0.3.2:0"), objects.UDP, nil, 0},
		"ipv4, with options":     {from("192.0.2.100:40001"), from("192.0.3.2:0"), objects.UDP, []byte{1, 1, 1, 0}, 0},
		"ipv4, a first fragment": {from("192.0.2.100:40002"), from("192.0.3.2:0"), objects.UDP, nil, 0x2000},
		"ipv6":                   {from("[2001:db8:2::100]:40000"), from("[2001:db8:3::2]:0"), objects.UDP, nil, 0},
		"ipv6, TCP":              {from("[2001:db8:2::100]:40001"), from("[2001:db8:3::2]:0"), objects.TCP, nil, 0},
		"ipv6, a first fragment": {from("[2001:db8:2::100]:40002"), from("[2001:db8:3::2]:0"), objects.UDP, nil, 1},
	} {
		v6 := c.client.Addr().Is6()
		f := frame{device: "out", src: c.client, dst: s.nodePort(v6), proto: c.proto, flags: syn}
		at, source := w.through(f)
		quoted := frame{src: source, dst: at, proto: c.proto, flags: syn, options: c.options, fragment: c.fragment}.network()
		e := frame{device: "rem", src: c.router, dst: netip.AddrPortFrom(source.Addr(), 0), proto: icmp4, body: icmp(3, 1, quoted...)}
		if v6 {
			e.proto, e.body = icmp6, icmp(1, 3, quoted...)
		}
		verdict, out := w.ingress(e)
		verdictOf(t, name, verdict, passes)
		_, dst := out.ends()
		message := out.network()[20:]
		if v6 {
			message = out.network()[40:]
		}
		from, to := append(frameOut(make([]byte, 14)), message[8:]...).ends()
		if dst.Addr() != c.client.Addr() || from != c.client || to != at {
			t.Errorf("%s: it goes to %s and quotes a packet from %s to %s, want %s and %s", name, dst, from, to, c.client, at)
		}
		if sum := checksum(message); !v6 && sum != 0xffff {
			t.Errorf("%s: its checksum is wrong: %#x", name, sum)
		}
	}
}

// An error that quotes a packet of no version, or of the other one, is nobody's.
func TestErrorQuotesNoPacket(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	for name, v6 := range families() {
		f := frame{device: "pa", src: podAddr(v6), dst: s.vip(v6), proto: objects.UDP}
		at := w.goes(f)
		quoted := frame{src: f.dst, dst: f.src, proto: objects.UDP}.network()
		e := frame{device: "pa", src: f.src, dst: f.dst, proto: icmp4, body: icmp(3, 3, quoted...)}
		if v6 {
			e.proto, e.body = icmp6, icmp(1, 4, quoted...)
		}
		for first, to := range map[byte]netip.Addr{quoted[0]: at.Addr(), quoted[0] & 15: f.dst.Addr(), quoted[0] ^ 0x20: f.dst.Addr()} {
			e.body[8] = first
			verdict, out := w.ingress(e)
			if _, dst := out.ends(); verdict != passes || dst.Addr() != to {
				t.Errorf("%s: an error that quotes a packet that begins with %#x: verdict %d, to %s, want it to %s", name, first, verdict, dst.Addr(), to)
			}
		}
	}
}

// A later fragment fares as its first one did, for a while; one without is dropped where it must
// be for a Service.
func TestFragmentsOf(t *testing.T) {
	t.Parallel()
	const node, elsewhere = "192.0.2.1", "203.0.113.9"
	s := service{number: 1, endpoints: both(2), external: []string{node, elsewhere}}
	w := newWorld(t, planOf(s), nil)
	later := func(device, to string) frame {
		return frame{device: device, src: from(podA), dst: netip.AddrPortFrom(netip.MustParseAddr(to), 0), proto: objects.UDP, fragment: 2, body: make([]byte, 16)}
	}
	first := func(device string, to netip.AddrPort) frame {
		return frame{device: device, src: from(podA), dst: to, proto: objects.UDP, fragment: 0x2000}
	}
	vip := s.vip(false)
	for what, c := range map[string]struct {
		run  func(frame) (int, frameOut)
		f    frame
		want int
	}{
		"in, ClusterIP":       {w.ingress, later("pa", vip.Addr().String()), isDropped},
		"in, external":        {w.ingress, later("pa", elsewhere), isDropped},
		"in, the node's own":  {w.ingress, later("pa", node), passes},
		"out, ClusterIP":      {w.egress, later("world", vip.Addr().String()), isDropped},
		"out, external":       {w.egress, later("world", elsewhere), passes},
		"out, the node's own": {w.egress, later("world", node), passes},
	} {
		verdict, _ := c.run(c.f)
		verdictOf(t, what, verdict, c.want)
	}
	verdict, _ := w.egress(first("world", from(elsewhere+":80")))
	verdictOf(t, "out, the first one, to a frontend", verdict, isDropped)
	verdict, _ = w.egress(later("world", elsewhere))
	verdictOf(t, "out, after it", verdict, isDropped)
	verdict, _ = w.egress(first("world", from(elsewhere+":81")))
	verdictOf(t, "out, the first one, to nothing of ours", verdict, passes)
	verdict, _ = w.egress(later("world", elsewhere))
	verdictOf(t, "out, after that", verdict, passes)

	stream := first("pa", vip)
	at := w.goes(stream)
	w.answers(stream, at, 0)
	w.age(2 * time.Second)
	w.goes(stream)
	if verdict, out := w.ingress(later("pa", vip.Addr().String())); verdict != passes || out.dst() != at.Addr() {
		t.Errorf("a later fragment: verdict %d, to %s", verdict, out.dst())
	}
	w.age(31 * time.Second)
	verdict, _ = w.ingress(later("pa", vip.Addr().String()))
	verdictOf(t, "one that comes much later", verdict, isDropped)
}

func (o frameOut) dst() netip.Addr { return netip.AddrFrom4([4]byte(o.network()[16:20])) }
