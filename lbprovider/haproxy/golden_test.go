package haproxy

import (
	"errors"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/lbprovider/profile"
)

var update = flag.Bool("update", false, "rewrite the golden sections of testdata/*.txtar")

// A case has the sections service (YAML) and nodes (a name and its addresses a
// line), may have profile and bind, and is followed by what comes of it:
// haproxy.cfg, servers.state. With service.new or nodes.new, the section
// change holds what brings a process that runs the first to the second.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]string{}
	for _, f := range ar.Files {
		in[f.Name] = string(f.Data)
	}
	cfg := caseConfig(t, in, "service", "nodes")
	out := map[string]string{}
	if _, ok := in["change"]; ok {
		if in["service.new"] == "" {
			in["service.new"] = in["service"]
		}
		if _, ok := in["nodes.new"]; !ok {
			in["nodes.new"] = in["nodes"]
		}
		out["change"] = changeText(Change(runningOf(cfg), caseConfig(t, in, "service.new", "nodes.new")))
	} else {
		out["haproxy.cfg"] = Render(cfg)
		out["servers.state"] = StateFile(cfg, Running{})
	}
	for i, f := range ar.Files {
		want, ok := out[f.Name]
		if !ok {
			continue
		}
		if d := cmp.Diff(in[f.Name], want); d != "" && !*update {
			t.Errorf("%s (-want +got):\n%s", f.Name, d)
		}
		ar.Files[i].Data = []byte(want)
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHAProxyAccepts has the real program read every case, with names that no
// node has, and with the states it is to start from.
func TestHAProxyAccepts(t *testing.T) {
	need.Program(t, "haproxy")
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := map[string]string{}
			for _, f := range ar.Files {
				in[f.Name] = string(f.Data)
			}
			cfg := caseConfig(t, in, "service", "nodes")
			cfg.Dir = t.TempDir() + "/a b\"'\\#$x"
			if err := os.Mkdir(cfg.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range cfg.LB.Listeners {
				cfg.LB.Listeners[i].Servers[0].Node = "n\n  server evil; #\"$x"
			}
			for name, text := range map[string]string{ConfigFile: Render(cfg), StatesFile: StateFile(cfg, Running{})} {
				if err := os.WriteFile(filepath.Join(cfg.Dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command("haproxy", "-c", "-f", filepath.Join(cfg.Dir, ConfigFile)).CombinedOutput()
			if err != nil {
				t.Errorf("haproxy -c: %v\n%s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "[WARNING]") && !strings.Contains(line, "is DOWN, changed from server-state") {
					t.Errorf("haproxy warns: %s", line)
				}
			}
			servers := 0
			for _, l := range cfg.LB.Listeners {
				servers += len(l.Servers)
			}
			if got := strings.Count(string(out), "is DOWN, changed from server-state"); got != servers {
				t.Errorf("%d of %d servers begin DOWN:\n%s", got, servers, out)
			}
		})
	}
}

func changeText(d Delta) string {
	if d.Reload {
		return "reload\n"
	}
	if len(d.Commands) == 0 {
		return "nothing\n"
	}
	return strings.ReplaceAll(strings.Join(d.Commands, "\n"), "; ", "\n  ; ") + "\n"
}

func caseConfig(t *testing.T, in map[string]string, service, nodes string) Config {
	t.Helper()
	var svc v1.Service
	if err := yaml.UnmarshalStrict([]byte(in[service]), &svc); err != nil {
		t.Fatalf("section %s: %v", service, err)
	}
	var list []*v1.Node
	for line := range strings.Lines(in[nodes]) {
		f := strings.Fields(line)
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: f[0]}}
		for _, a := range f[1:] {
			n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: a})
		}
		list = append(list, n)
	}
	lb, err := lbplan.Build(&svc, list)
	if err != nil {
		t.Fatalf("section %s: %v", service, err)
	}
	c := Config{LB: lb, Profile: named(t, in["profile"]), Dir: "/run/lb", Bind: map[lbplan.Family]netip.Addr{}}
	for s := range strings.FieldsSeq(in["bind"]) {
		a := netip.MustParseAddr(s)
		c.Bind[lbplan.FamilyOf(a)] = a
	}
	return c
}

// runningOf is a process that runs c, with every server UP.
func runningOf(c Config) Running {
	r := Running{Base: BaseOf(c), PID: 1}
	for _, l := range c.LB.Listeners {
		for _, s := range l.Servers {
			r.Servers = append(r.Servers, ServerState{
				Proxy: proxyName(l), Server: serverName(s.Node), Addr: s.Addr, CheckPort: c.LB.Check.Port,
				Up: true, InService: true, Checked: true, since: 60, status: 15, result: 3, level: 3,
			})
		}
	}
	return r
}

// What a dead provider or a person at the socket may have left behind.
func TestChangeOfWhatWasLeft(t *testing.T) {
	cfg := caseConfig(t, map[string]string{
		"service": "metadata: {namespace: shop, name: web}\nspec: {ipFamilies: [IPv4], ports: [{port: 80, nodePort: 30080}]}\n",
		"nodes":   "n1 10.0.0.1\n",
	}, "service", "nodes")
	extra := func(s ServerState) func(*Running) {
		return func(r *Running) { r.Servers = append(r.Servers, s) }
	}
	reset := "set server tcp-80-v4/n1 state maint; set server tcp-80-v4/n1 weight 0; set server tcp-80-v4/n1 addr 10.0.0.1 port 30080; " +
		"set server tcp-80-v4/n1 check-port 10256; enable health tcp-80-v4/n1; set server tcp-80-v4/n1 state ready; " +
		"set server tcp-80-v4/n1 health down; set server tcp-80-v4/n1 weight 1"
	for _, c := range []struct {
		name   string
		mutate func(*Running)
		want   Delta
		done   bool
	}{
		{"as it should be", func(*Running) {}, Delta{}, true},
		{"added but still of weight 0", func(r *Running) { r.Servers[0].InService = false }, Delta{Commands: []string{reset}}, false},
		{"another address", func(r *Running) { r.Servers[0].Addr = netip.MustParseAddrPort("10.0.0.9:30080") }, Delta{Commands: []string{reset}}, false},
		{"another nodePort", func(r *Running) { r.Servers[0].Addr = netip.MustParseAddrPort("10.0.0.1:30081") }, Delta{Commands: []string{reset}}, false},
		{"a server too many", extra(ServerState{Proxy: "tcp-80-v4", Server: "n2", InService: true}),
			Delta{Commands: []string{"set server tcp-80-v4/n2 state maint; del server tcp-80-v4/n2"}}, false},
		{"a removed server that drains", extra(ServerState{Proxy: "tcp-80-v4", Server: "n2", Maint: true}),
			Delta{Commands: []string{"del server tcp-80-v4/n2"}, Drains: 1}, true},
		{"another configuration", func(r *Running) { r.Base = "0" }, Delta{Reload: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := runningOf(cfg)
			c.mutate(&now)
			got := Change(now, cfg)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if got.Done() != c.done {
				t.Errorf("Done is %t, want %t", got.Done(), c.done)
			}
		})
	}
}

// A reload keeps what was found UP under the same address, and nothing else.
func TestStateFileKeepsOnlyWhatWasFoundUp(t *testing.T) {
	cfg := caseConfig(t, map[string]string{
		"service": "metadata: {namespace: shop, name: web}\nspec: {ipFamilies: [IPv4], ports: [{port: 80, nodePort: 30080}]}\n",
		"nodes":   "down 10.0.0.1\nmoved 10.0.0.2\nnew 10.0.0.3\nunchecked 10.0.0.4\nup 10.0.0.5\n",
	}, "service", "nodes")
	now := runningOf(cfg)
	now.Servers[0].Up, now.Servers[0].status = false, 17
	now.Servers[1].Addr = netip.MustParseAddrPort("10.0.0.22:30080")
	now.Servers[3].Checked = false
	now.Servers = append(now.Servers[:2], now.Servers[3:]...)

	states, err := parseServers(StateFile(cfg, now))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, s := range states {
		got[s.Server] = s.Up
		if !s.Up && s.Server != "down" && s.status != checkInit {
			t.Errorf("%s starts with check status %d, want %d: HAProxy would never check it", s.Server, s.status, checkInit)
		}
	}
	want := map[string]bool{"down": false, "moved": false, "new": false, "unchecked": false, "up": true}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("UP after a reload (-want +got):\n%s", d)
	}
}

func TestParseLog(t *testing.T) {
	const stamp = "<5>2026-11-21T07:08:06.539265+00:00 "
	conn := ConnLine{Client: netip.MustParseAddrPort("10.0.0.7:55332"), Proxy: "tcp-80-v4", Node: "worker-1.x", WaitMS: 0, DialMS: 1, AllMS: 12, Bytes: 345, Term: "--", Source: netip.MustParseAddrPort("10.0.0.9:41000")}
	for _, c := range []struct {
		name, text string
		conn       *ConnLine
		server     *ServerLine
	}{
		{"served", "conn 10.0.0.7 55332 tcp-80-v4 worker-1.x 1795244886 539 0 1 12 345 -- 0 3999 10.0.0.9 41000\n", &conn, nil},
		{"no server", "conn fd00::7 1 tcp-80-v6 <NOSRV> 1795244886 539 -1 -1 0 0 SC +3 4000 - -\n",
			&ConnLine{Client: netip.MustParseAddrPort("[fd00::7]:1"), Proxy: "tcp-80-v6", Node: NoServer, WaitMS: -1, DialMS: -1, Term: "SC", Retries: 3, Full: true}, nil},
		{"up after a check", "Server tcp-80-v4/n_20x is UP. 3 active and 0 backup servers online. 0 sessions requeued, 0 total in queue.", nil, &ServerLine{"tcp-80-v4", "n x", true}},
		{"down with a reason", `Server tcp-80-v4/n1 is DOWN, reason: Layer7 wrong status, code: 503, check duration: 0ms.`, nil, &ServerLine{"tcp-80-v4", "n1", false}},
		{"down without", "Server tcp-80-v4/n1 is DOWN. 0 active and 0 backup servers left.", nil, &ServerLine{"tcp-80-v4", "n1", false}},
		{"maintenance", "Server tcp-80-v4/n1 is going DOWN for maintenance. 1 active", nil, &ServerLine{"tcp-80-v4", "n1", false}},
		{"leaving maintenance says nothing", "Server tcp-80-v4/n7 is UP/READY (leaving forced maintenance).", nil, nil},
		{"a check", "Health check for server tcp-80-v4/n1 succeeded, reason: Layer7 check passed, code: 200", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := ParseLog(stamp + c.text)
			if err != nil {
				t.Fatal(err)
			}
			if want := "2026-11-21T07:08:06.539265Z"; l.At.UTC().Format("2006-01-02T15:04:05.000000Z") != want {
				t.Errorf("written at %s, want %s", l.At, want)
			}
			if c.conn != nil {
				if l.Conn == nil || l.Conn.Accepted.UnixMilli() != 1795244886539 {
					t.Fatalf("accepted %+v", l.Conn)
				}
				c.conn.Accepted = l.Conn.Accepted
			}
			byValue := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
			if d := cmp.Diff(c.conn, l.Conn, byValue); d != "" {
				t.Errorf("connection (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.server, l.Server); d != "" {
				t.Errorf("server (-want +got):\n%s", d)
			}
		})
	}
	for _, bad := range []string{"", "conn", stamp + "conn 1 2 3", stamp + "conn 10.0.0.7 70000 p s 1 1 0 1 12 345 -- 0 1 - -", stamp + "conn 10.0.0.7 1 p s 1 1 0 1 12 345 -- 0 1 10.0.0.9 70000", stamp + "conn 10.0.0.7 1 p s 1 1 0 1 12 345 -- 0 1 x 7", "<5>yesterday conn"} {
		if _, err := ParseLog(bad); err == nil {
			t.Errorf("row %q is understood", bad)
		}
	}
}

func TestServerNames(t *testing.T) {
	for node, want := range map[string]string{
		"plumbline-worker": "plumbline-worker", "node1.example": "node1.example",
		"a b": "a_20b", "a_b": "a_5fb", "x\n  server y": "x_0a_20_20server_20y", "ü": "_c3_bc",
	} {
		got := serverName(node)
		if got != want || nodeName(got) != node {
			t.Errorf("%q became %q (want %q) and %q again", node, got, want, nodeName(got))
		}
	}
	if nodeName(NoServer) != NoServer {
		t.Errorf("%s was changed", NoServer)
	}
}

// FuzzHAProxyConfig: nothing of an object can add a line, a word or a command.
func FuzzHAProxyConfig(f *testing.F) {
	f.Add("shop", "web", "n1", "10.0.0.1", "10.0.0.0/8", "10.0.0.5", "/run/lb", int32(80), int32(30080))
	f.Add("a\nlisten x", "b c", "n\n  server evil 6.6.6.6:6", "::1", " fd00::/8", "", "/a b\"'\\x", int32(1), int32(65535))
	f.Add("", "", "n; shutdown frontend x", "fe80::1%\n  bind :1", "1.2.3.4/33\n", "1.1.1.1%x", "", int32(-1), int32(1<<16))
	f.Add("${HOME}", "#", "n1 check disabled #", "10.0.0.1", "0.0.0.0/0", "$x", "$(x)", int32(443), int32(1))
	f.Fuzz(func(t *testing.T, ns, name, node, addr, source, pinned, dir string, port, nodePort int32) {
		svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		svc.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
		svc.Spec.Ports = []v1.ServicePort{{Name: name, Port: port, NodePort: nodePort}}
		svc.Spec.LoadBalancerSourceRanges = []string{source}
		svc.Spec.LoadBalancerIP = pinned
		svc.Spec.SessionAffinity = v1.ServiceAffinityClientIP
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: addr}}
		lb, err := lbplan.Build(svc, []*v1.Node{n})
		if err != nil {
			if !errors.As(err, new(*lbplan.Refusal)) {
				t.Fatalf("error %v is not a refusal", err)
			}
			return
		}
		checkShape(t, Config{LB: lb, Profile: named(t, "l4-strict"), Dir: dir})
	})
}

// checkShape compares what was rendered with the same for harmless names: the
// same lines, with the same number of words and no byte that means something.
func checkShape(t *testing.T, c Config) {
	t.Helper()
	tame := c
	tame.Dir = "/d"
	tame.LB.Listeners = nil
	for _, l := range c.LB.Listeners {
		servers := make([]lbplan.Server, len(l.Servers))
		for i, s := range l.Servers {
			servers[i] = lbplan.Server{Node: "n", Addr: s.Addr}
			if back := nodeName(serverName(s.Node)); back != s.Node {
				t.Fatalf("node %q came back as %q", s.Node, back)
			}
		}
		l.Servers = servers
		tame.LB.Listeners = append(tame.LB.Listeners, l)
	}
	for what, pair := range map[string][2]string{
		"configuration": {Render(tame), Render(c)},
		"state file":    {StateFile(tame, Running{}), StateFile(c, Running{})},
		"commands":      {commands(tame), commands(c)},
	} {
		want, got := strings.Split(pair[0], "\n"), strings.Split(pair[1], "\n")
		if len(want) != len(got) {
			t.Fatalf("%s has %d lines, want %d:\n%s", what, len(got), len(want), pair[1])
		}
		for i := range got {
			if w, g := strings.Fields(want[i]), strings.Fields(got[i]); len(w) != len(g) {
				t.Fatalf("%s, line %d has %d words, want %d: %q", what, i+1, len(g), len(w), got[i])
			}
			if w, g := strings.Count(want[i], ";"), strings.Count(got[i], ";"); w != g {
				t.Fatalf("%s, line %d has %d commands, want %d: %q", what, i+1, g, w, got[i])
			}
			for _, b := range []byte(got[i]) {
				if b < ' ' || b > '~' {
					t.Fatalf("%s, line %d has byte %#x: %q", what, i+1, b, got[i])
				}
			}
		}
	}
}

func commands(c Config) string {
	return strings.Join(Change(Running{Base: BaseOf(c)}, c).Commands, "\n")
}

// named is a profile; l4-strict if it is not named.
func named(t *testing.T, text string) profile.Profile {
	t.Helper()
	text = strings.TrimSpace(text)
	if text == "" {
		text = "l4-strict"
	}
	p, err := profile.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
