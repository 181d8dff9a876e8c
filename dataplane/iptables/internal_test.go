package iptables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// plans are the last plans of all cases.
func plans(t testing.TB) []*plan.Plan {
	t.Helper()
	cases, err := dptest.Load("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	var out []*plan.Plan
	for _, c := range cases {
		out = append(out, c.Plan())
	}
	return out
}

func whole(p *plan.Plan, v6 bool) model {
	return complete(v6, p, DefaultMark)
}

// What a difference writes turns any case's chains into those of the next, and
// writing it for a few frontends at a time ends the same.
func TestDiffReplays(t *testing.T) {
	all := append(plans(t), &plan.Plan{})
	for _, v6 := range []bool{false, true} {
		for i, p := range all {
			next := all[(i+1)%len(all)]
			have, want := whole(p, v6), whole(next, v6)
			s := diff(have, want)
			whenWhole := maps.Clone(have)
			for id, c := range whenWhole {
				whenWhole[id] = &chain{slices.Clone(c.rules), slices.Clone(c.last)}
			}
			for _, part := range s.parts() {
				whenWhole.replay(part)
			}
			if diff := cmp.Diff(want.lines(v6), whenWhole.lines(v6)); diff != "" || want.sum() != whenWhole.sum() {
				t.Fatalf("case %d to the next, ip6 %t (-want +got):\n%s", i, v6, diff)
			}
			inParts, keys := maps.Clone(have), map[plan.Key]bool{}
			for id, c := range inParts {
				inParts[id] = &chain{slices.Clone(c.rules), slices.Clone(c.last)}
			}
			for _, k := range append([]plan.Key{{}}, s.adds()...) {
				keys[k] = true
			}
			for _, piece := range append([]*script{s.additions(func(k plan.Key) bool { return keys[k] })}, s.removals(2)...) {
				for _, part := range piece.parts() {
					inParts.replay(part)
				}
			}
			if diff := cmp.Diff(want.lines(v6), inParts.lines(v6)); diff != "" {
				t.Fatalf("case %d to the next in parts, ip6 %t (-want +got):\n%s", i, v6, diff)
			}
			if again := diff(whenWhole, want); !again.empty() {
				t.Fatalf("case %d to the next, ip6 %t: more to do:\n%s", i, v6, text(again.lines()))
			}
		}
	}
}

// The chains of a Service that did not change are not in the text, nor is any
// rule of the chains that all Services share but its own.
func TestDiffIsSmall(t *testing.T) {
	p := &plan.Plan{Services: map[objects.Name]plan.Service{}}
	for i := range 50 {
		p.Services[objects.Name{Name: fmt.Sprint(i)}] = plan.Service{Frontends: []plan.Frontend{frontend(i, 3)}}
	}
	before := whole(p, false)
	f := frontend(7, 4)
	p.Services[objects.Name{Name: "7"}] = plan.Service{Frontends: []plan.Frontend{f}}
	s := diff(before, whole(p, false))
	at := func(e int) string {
		return chainName(kindEndpoint, f.Key, f.Key.Protocol, f.Outside.Endpoints[e].Addr, uint16(8080), false, false)
	}
	svc := chainName(kindService, f.Key)
	want := []string{
		"*nat", ":" + at(3) + " - [0:0]", ":" + svc + " - [0:0]",
		"-A " + svc + " -m statistic --mode random --probability 0.25000000000 -j " + at(0),
		"-A " + svc + " -m statistic --mode random --probability 0.33333333349 -j " + at(1),
		"-A " + svc + " -m statistic --mode random --probability 0.50000000000 -j " + at(2),
		"-A " + svc + " -j " + at(3),
		"-A " + at(3) + " -p tcp -j DNAT --to-destination 10.0.7.3:8080",
		"COMMIT",
	}
	slices.Sort(want)
	got := strings.Split(strings.TrimSpace(text(s.lines())), "\n")
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("from three endpoints to four (-want +got):\n%s", diff)
	}
}

func frontend(i, endpoints int) plan.Frontend {
	f := plan.Frontend{
		Key:     plan.Key{Addr: netip.AddrFrom4([4]byte{10, 96, 0, byte(i)}), Protocol: objects.TCP, Port: 80},
		Kind:    plan.ClusterIP,
		Outside: plan.Route{Action: plan.Forward},
	}
	for e := range endpoints {
		f.Outside.Endpoints = append(f.Outside.Endpoints, plan.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i), byte(e)}), Port: 8080})
	}
	return f
}

// The number of rules of a Service: what grows is what a packet walks through,
// and what a change writes.
func TestRulesPerService(t *testing.T) {
	local := func(f plan.Frontend) plan.Frontend {
		for i := range f.Outside.Endpoints {
			f.Outside.Endpoints[i].Local = true
		}
		return f
	}
	sticky := func(f plan.Frontend) plan.Frontend { f.Affinity = time.Minute; return f }
	base := len(whole(&plan.Plan{}, false).rules())
	for _, tt := range []struct {
		name string
		f    func(n int) plan.Frontend
		want func(n int) int
	}{
		{"clusterip", func(n int) plan.Frontend { return frontend(1, n) }, func(n int) int { return 1 + 2*n }},
		{"local endpoints", func(n int) plan.Frontend { return local(frontend(1, n)) }, func(n int) int { return 1 + 3*n }},
		{"affinity", func(n int) plan.Frontend { return sticky(frontend(1, n)) }, func(n int) int { return 1 + 3*n }},
	} {
		for _, n := range []int{1, 2, 10} {
			p := &plan.Plan{Services: map[objects.Name]plan.Service{{}: {Frontends: []plan.Frontend{tt.f(n)}}}}
			if got := len(whole(p, false).rules()) - base; got != tt.want(n) {
				t.Errorf("%s with %d endpoints: %d rules, want %d", tt.name, n, got, tt.want(n))
			}
		}
	}
}

// A frontend that loses its endpoints is refused before nat stops forwarding, and
// one that gets some is forwarded before the refusal ends: in between, nothing
// goes the way of packets that no frontend claims.
func TestOrder(t *testing.T) {
	at := func(f plan.Frontend) model {
		return whole(&plan.Plan{Services: map[objects.Name]plan.Service{{}: {Frontends: []plan.Frontend{f}}}}, false)
	}
	none := frontend(1, 0)
	none.Outside = plan.Route{Action: plan.Reject}
	forward, rejected := at(frontend(1, 1)), at(none)
	tables := func(s *script) (out []string) {
		for _, l := range s.lines() {
			if strings.HasPrefix(l.text, "*") {
				out = append(out, l.text)
			}
		}
		return out
	}
	if got := tables(diff(forward, rejected)); !slices.Equal(got, []string{"*filter", "*nat"}) {
		t.Errorf("losing its endpoint: %v", got)
	}
	if got := tables(diff(rejected, forward)); !slices.Equal(got, []string{"*nat", "*filter"}) {
		t.Errorf("getting an endpoint: %v", got)
	}
	none.Outside.Action = plan.Drop
	if got := tables(diff(rejected, at(none))); !slices.Equal(got, []string{"*filter", "*filter"}) {
		t.Errorf("from reject to drop: %v", got)
	}
}

func (m model) rules() []rule {
	var out []rule
	for _, c := range m {
		out = append(out, append(slices.Clone(c.rules), c.last...)...)
	}
	return out
}

// grammar is every line that may be in a restore's input: nothing in it can come
// from an object but addresses, numbers and hashes.
var grammar = regexp.MustCompile(`^(` + strings.Join([]string{
	`\*(nat|filter)`, `COMMIT`, `:PLUMB-[A-Z0-9-]{1,22} - \[0:0\]`, `-X PLUMB-[A-Z0-9-]{1,22}`,
	`-[AID] (PLUMB-[A-Z0-9-]{1,22}|PREROUTING|POSTROUTING|INPUT|OUTPUT|FORWARD)` +
		`( -[sd] [0-9a-f.:]+/[0-9]{1,3}| -i ([A-Za-z0-9_.:-]{1,15}|[A-Za-z0-9_.:-]{1,14}\+))?( -p (tcp|udp|sctp))?( -m (tcp|udp|sctp) --dport [0-9]{1,5})?` +
		`( -m statistic --mode random --probability 0\.[0-9]{11}| -m addrtype --src-type LOCAL|` +
		` -m conntrack --ctstate (NEW|DNAT|RELATED,ESTABLISHED)| -m mark( !)? --mark 0x1000/0x1000|` +
		` -m recent (--rcheck --seconds [0-9]+ --reap|--set|--remove) --name PLUMB-[A-Z2-7]{16} --mask [0-9a-f.:]+ --rsource)?` +
		`( -[jg] (PLUMB-[A-Z0-9-]{1,22}|RETURN|ACCEPT|DROP|REJECT --reject-with [a-z0-9-]+|MARK --set-xmark 0x1000/0x(1000|0)|` +
		`MASQUERADE --random-fully|DNAT --to-destination [0-9a-f.:\[\]]+:[0-9]{1,5}))?`,
}, "|") + `)$`)

func checkGrammar(t *testing.T, p *plan.Plan) {
	t.Helper()
	for _, v6 := range []bool{false, true} {
		m := whole(p, v6)
		for _, s := range []*script{diff(model{}, m), diff(m, model{}), diff(m, whole(&plan.Plan{}, v6))} {
			for _, l := range s.lines() {
				if !grammar.MatchString(l.text) || strings.Contains(l.text, "  ") || strings.HasSuffix(l.text, " ") {
					t.Fatalf("line %q is not one of ours", l.text)
				}
			}
		}
	}
}

func TestGrammar(t *testing.T) {
	for _, p := range plans(t) {
		checkGrammar(t, p)
	}
}

// FuzzRender makes plans of anything: what is written keeps to the grammar, has
// no chain that a rule leads to and that is not there, and replays.
func FuzzRender(f *testing.F) {
	f.Add([]byte("seed"))
	f.Add([]byte{0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 3, 2, 1, 77})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := (&dice{data}).plan()
		checkGrammar(t, p)
		for _, v6 := range []bool{false, true} {
			m := whole(p, v6)
			for id, c := range m {
				for _, r := range append(slices.Clone(c.rules), c.last...) {
					if to := target(r.text); to != "" && m[chainID{id.table, to}] == nil {
						t.Fatalf("%s %s leads to %s, which is not there", id.table, id.name, to)
					}
				}
				if len(c.rules) == 0 && !id.bulk() {
					t.Fatalf("%s %s is empty", id.table, id.name)
				}
			}
			got := model{}
			for _, part := range diff(got, m).parts() {
				got.replay(part)
			}
			if got.sum() != m.sum() {
				t.Fatal("what is written is not what is meant")
			}
		}
	})
}

// dice reads choices off a fuzzer's bytes.
type dice struct{ data []byte }

func (d *dice) n(below int) int {
	if len(d.data) == 0 {
		return 0
	}
	out := int(d.data[0]) % below
	d.data = d.data[1:]
	return out
}

func (d *dice) addr(v6 bool) netip.Addr {
	var b [16]byte
	d.data = d.data[copy(b[:], d.data):]
	if v6 {
		return netip.AddrFrom16(b)
	}
	return netip.AddrFrom4([4]byte(b[:4]))
}

func (d *dice) prefixes(v6 bool) []netip.Prefix {
	var out []netip.Prefix
	for range d.n(3) {
		a := d.addr(v6)
		out = append(out, netip.PrefixFrom(a, d.n(a.BitLen()+1)))
	}
	return out
}

func (d *dice) port() uint16 { return binary.BigEndian.Uint16([]byte{byte(d.n(256)), byte(d.n(256))}) }

func (d *dice) route(v6 bool) plan.Route {
	r := plan.Route{Action: []plan.Action{plan.Forward, plan.Drop, plan.Reject}[d.n(3)], Masquerade: plan.Masquerade(d.n(4))}
	for range d.n(4) {
		r.Endpoints = append(r.Endpoints, plan.Endpoint{Addr: d.addr(v6), Port: d.port(), Local: d.n(2) == 1})
	}
	return r
}

func (d *dice) plan() *plan.Plan {
	p := &plan.Plan{Services: map[objects.Name]plan.Service{}}
	for _, v6 := range []bool{false, true} {
		p.Node.Addrs = append(p.Node.Addrs, d.addr(v6))
		p.Node.LocalPods = append(p.Node.LocalPods, d.prefixes(v6)...)
		p.Node.ServiceCIDRs = append(p.Node.ServiceCIDRs, d.prefixes(v6)...)
	}
	for i := 0; len(d.data) > 0 && i < 20; i++ {
		v6 := d.n(2) == 1
		f := plan.Frontend{Kind: plan.Kind(1 + d.n(4)), Outside: d.route(v6), Restricted: d.n(2) == 1, Sources: d.prefixes(v6), Affinity: time.Duration(d.n(3)) * time.Hour}
		f.Key = plan.Key{IPv6: v6, Protocol: []objects.Protocol{objects.TCP, objects.UDP, objects.SCTP}[d.n(3)], Port: d.port()}
		if f.Kind != plan.NodePort {
			f.Key.Addr = d.addr(v6)
		}
		if d.n(2) == 1 {
			in := d.route(v6)
			f.Inside = &in
		}
		if f.Kind == plan.ClusterIP && d.n(4) == 0 {
			f.Key.Protocol, f.Key.Port, f.Outside = 0, 0, plan.Route{Action: plan.Reject}
		}
		p.Services[objects.Name{Name: fmt.Sprint(i)}] = plan.Service{Frontends: []plan.Frontend{f}}
	}
	return p
}

// What programs of both flavours print when something is wrong, seen with 1.8.9.
func TestCulprits(t *testing.T) {
	a, b := frontend(1, 1).Key, frontend(2, 1).Key
	lines := []line{{text: "*nat"}, {text: "-A PLUMB-X -j RETURN", of: a}, {text: "-I PLUMB-Y -j RETURN", of: b}, {text: "-D PLUMB-Y -j RETURN"}, {text: "COMMIT"}}
	for _, tt := range []struct {
		stderr string
		want   []plan.Key
		commit bool
	}{
		{"iptables-nft-restore v1.8.9 (nf_tables): \nline 3: RULE_INSERT failed (Invalid argument): rule in chain PLUMB-Y", []plan.Key{b}, false},
		{"line 2: RULE_APPEND failed (Invalid argument): rule in chain PLUMB-X\nline 3: RULE_INSERT failed (No such file or directory): rule in chain PLUMB-Y", []plan.Key{a, b}, false},
		{"iptables-restore v1.8.9 (legacy): Couldn't load match `recent':No such file or directory\n\nError occurred at line: 2\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.", []plan.Key{a}, false},
		{"iptables-restore: line 5 failed", nil, true},
		{"iptables-nft-restore: line 4 failed: Bad rule (does a matching rule exist in that chain?).", nil, false},
		{"iptables-nft-restore: line 3 failed: No chain/target/match by that name.", nil, false},
		{"iptables-restore: line 3 failed", nil, false},
		{"iptables-nft-restore v1.8.9 (nf_tables): Chain 'PLUMB-MASQ' does not exist\nError occurred at line: 3", nil, false},
		{"iptables-restore v1.8.9 (legacy): Couldn't load target `PLUMB-MASQ':No such file or directory\n\nError occurred at line: 2", nil, false},
		{"line 3: RULE_INSERT failed (Cannot allocate memory): rule in chain PLUMB-Y", nil, false},
		{"something else", nil, false},
	} {
		err := fmt.Errorf("wrapped: %w", &ExecError{Stderr: tt.stderr, Err: errors.New("exit status 1")})
		got := slices.SortedFunc(maps.Keys(culprits(err, lines)), plan.Key.Compare)
		if !slices.Equal(got, tt.want) || atCommit(err, lines) != tt.commit {
			t.Errorf("%q: %v, at commit %t; want %v, %t", tt.stderr, got, atCommit(err, lines), tt.want, tt.commit)
		}
	}
}

func TestFlavourOf(t *testing.T) {
	for version, want := range map[string]Flavour{
		"iptables v1.8.9 (nf_tables)\n": NFT, "iptables v1.8.9 (legacy)\n": Legacy, "iptables v1.6.1\n": Legacy,
	} {
		if got := flavourOf(version); got != want {
			t.Errorf("%q: %s, want %s", version, got, want)
		}
	}
}

// IPv6 addresses that end in an IPv4 one are printed the old way by iptables.
func TestIP(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1", "::1": "::1", "::": "::", "::1:2": "::0.1.0.2", "::ffff:10.0.0.1": "::ffff:10.0.0.1", "::a:0:0:1": "::a:0:0:1",
	} {
		if got := ip(netip.MustParseAddr(in)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// While nobody changes nf_tables the chains are not read, and no program is run.
func TestPollReadsWhatChanged(t *testing.T) {
	ns := netns.ForTest(t, "generation")
	need.Program(t, "iptables-nft-restore")
	p := &plan.Plan{Services: map[objects.Name]plan.Service{{}: {Frontends: []plan.Frontend{frontend(1, 1)}}}}
	target := New(Config{Logger: slog.New(slog.DiscardHandler), NetNS: ns.FD(), Flavour: NFT})
	if err := target.Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	lost := 0
	clean := target.look(t.Context(), nil, func() { lost++ })
	if clean == nil || lost > 0 {
		t.Fatalf("after an Apply: clean %v, lost %d times", clean, lost)
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", "")
	if again := target.look(t.Context(), clean, func() { lost++ }); again != clean || lost > 0 {
		t.Errorf("with nothing changed: clean %v, lost %d times", again, lost)
	}
	t.Setenv("PATH", path)
	if _, err := target.tool.run(within(t.Context()), "", "iptables-nft", "-t", "nat", "-F"); err != nil {
		t.Fatal(err)
	}
	if again := target.look(t.Context(), clean, func() { lost++ }); again != nil || lost != 1 {
		t.Errorf("after a flush: clean %v, lost %d times", again, lost)
	}
}

// Without IPv6 its frontends are refused by name, at a start and later, and those
// of IPv4 are served.
func TestNoIPv6(t *testing.T) {
	need.Root(t)
	need.Program(t, "iptables-nft-restore")
	ns := netns.ForTest(t, "node")
	target := New(Config{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), NetNS: ns.FD(), Flavour: NFT})
	target.tool = &tool{flavour: NFT, netns: ns.FD(), families: []bool{false}}
	both := func(i int) *plan.Plan {
		four, six := frontend(i, 1), frontend(i, 1)
		six.Key.IPv6, six.Key.Addr = true, netip.AddrFrom16([16]byte{0xfd, 15: byte(i)})
		six.Outside.Endpoints = []plan.Endpoint{{Addr: netip.MustParseAddr("fd01::1"), Port: 8080}}
		return &plan.Plan{Services: map[objects.Name]plan.Service{{Name: "web"}: {Frontends: []plan.Frontend{four, six}}}}
	}
	var old *plan.Plan
	for i := range 2 {
		p := both(i + 1)
		var refused *plan.Refused
		if err := target.Apply(t.Context(), old, p); !errors.As(err, &refused) {
			t.Fatalf("applied with %v", err)
		}
		for k := range plan.Index(p) {
			if why := refused.Frontends[k]; errors.Is(why, errors.ErrUnsupported) != k.IPv6 || (why != nil) != k.IPv6 {
				t.Errorf("%s: refused for %v", k, why)
			}
		}
		want := strings.Join(whole(p, false).lines(false), "")
		if got, err := target.tool.read(exec.Command, false); err != nil || strings.Join(got.lines(false), "") != want {
			t.Errorf("kernel has %v %v", got, err)
		}
		old = p
	}
}

// A table that cannot be opened is for want of NET_RAW only where that is wanting.
func TestExplain(t *testing.T) {
	const said = "iptables-restore: unable to initialize table 'filter'"
	err := explain(&ExecError{Stderr: said})
	if asks := strings.Contains(err.Error(), "NET_RAW"); asks == bequeaths(unix.CAP_NET_RAW) {
		t.Errorf("with the right to NET_RAW %t: %v", !asks, err)
	}
}

// FuzzSaved: whatever iptables-save prints, only chains that it names are taken away, each once,
// and none that a rule which stays leads to.
func FuzzSaved(f *testing.F) {
	f.Add("*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-X - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n-A KUBE-SERVICES -j KUBE-X\nCOMMIT\n")
	f.Add("*filter\n:FORWARD DROP [0:0]\n:KUBE-FORWARD - [0:0]\n:OTHER - [0:0]\n-A OTHER -g KUBE-FORWARD\n-A FORWARD -m comment --comment \"a b\" -j KUBE-FORWARD\nCOMMIT\n")
	f.Add("-A X\n*nat\n-A\n: \n:\n-A  -j\n*\n")
	theirs := func(chain string) bool { return strings.HasPrefix(chain, "KUBE-") }
	f.Fuzz(func(t *testing.T, text string) {
		parse(text)
		for _, s := range parseSaved(text) {
			got := s.without(theirs, map[string]string{})
			gone := map[string]bool{}
			for _, end := range got.ends {
				chain := strings.TrimPrefix(end, "-X ")
				if _, there := s.builtin[chain]; !there || !theirs(chain) || gone[chain] {
					t.Errorf("%s: %q is taken away", s.table, chain)
				}
				gone[chain] = true
			}
			for _, r := range s.rules {
				to := leadsTo(r.text)
				if _, named := s.builtin[r.chain]; !named {
					continue // iptables-save names each chain
				}
				if gone[to] && !gone[r.chain] && !slices.Contains(got.ways, "-D "+r.chain+" "+r.text) {
					t.Errorf("%s: %q goes, and %q leads to it from %q", s.table, to, r.text, r.chain)
				}
			}
		}
	})
}
