//go:build linux

package others

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// find looks in a namespace.
func find(t *testing.T, ns *netns.NS, cgroup string) []string {
	t.Helper()
	var found []Trace
	err := ns.Do(func() (err error) {
		found, err = Find(Config{Cgroup: cgroup})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, f := range found {
		out = append(out, f.String())
	}
	return out
}

func want(t *testing.T, got []string, lines ...string) {
	t.Helper()
	slices.Sort(lines)
	if diff := cmp.Diff(append([]string{}, lines...), got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func inside(t *testing.T, ns *netns.NS, input string, argv ...string) {
	t.Helper()
	need.Program(t, argv[0])
	err := ns.Do(func() error {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s", out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRules: tables and chains of proxies are told, of kubelet and Docker not, nor are
// chains that do nothing, nor those of another namespace.
func TestRules(t *testing.T) {
	need.Root(t)
	ns, beside := netns.ForTest(t, "n"), netns.ForTest(t, "m")
	want(t, find(t, ns, ""))
	inside(t, ns, `
add table ip kube-proxy
add table ip6 plumbline
add table ip plumbline-userspace
add table inet filter
add chain inet filter PLUMB-1
add rule inet filter PLUMB-1 accept
add table ip somebodys
add chain ip somebodys kube-proxy
add rule ip somebodys kube-proxy accept
`, "nft", "-f", "-")
	inside(t, ns, `*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:DOCKER - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp --dport 443 -j DNAT --to-destination 10.244.0.2:6443
-A DOCKER -p tcp --dport 80 -j DNAT --to-destination 172.17.0.2:80
-A KUBE-KUBELET-CANARY -j RETURN
COMMIT
`, "iptables-nft-restore")
	inside(t, ns, "*nat\n:OVN-KUBE-NODEPORT - [0:0]\n-A OVN-KUBE-NODEPORT -p tcp --dport 30000 -j DNAT --to-destination [fd00::2]:80\nCOMMIT\n", "ip6tables-nft-restore")
	want(t, find(t, ns, ""),
		"kube-proxy: table ip kube-proxy", "plumb-nftables: table ip6 plumbline", "plumb-userspace: table ip plumbline-userspace",
		"plumb-iptables: chain PLUMB-1 of table inet filter", "kube-proxy: chain KUBE-SERVICES of table ip nat",
		"OVN-Kubernetes: chain OVN-KUBE-NODEPORT of table ip6 nat")
	want(t, find(t, beside, ""))
}

// TestLegacy: the tables of iptables-legacy are read without its programs.
func TestLegacy(t *testing.T) {
	need.Root(t)
	need.File(t, "/proc/net/ip_tables_names", "a kernel with iptables-legacy")
	ns := netns.ForTest(t, "n")
	rules := `*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-ROUTER-SERVICES - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -p tcp -m tcp --dport 443 -j KUBE-MARK-MASQ
-A KUBE-SERVICES -p tcp -m tcp --dport 444 -j KUBE-NODEPORTS
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
COMMIT
*filter
:PLUMB-1 - [0:0]
-A FORWARD -j PLUMB-1
-A PLUMB-1 -j ACCEPT
COMMIT
`
	inside(t, ns, rules, "iptables-legacy-restore")
	inside(t, ns, rules, "ip6tables-legacy-restore")
	t.Setenv("PATH", "")
	want(t, find(t, ns, ""),
		"kube-proxy: chain KUBE-SERVICES of table nat (iptables-legacy)", "plumb-iptables: chain PLUMB-1 of table filter (iptables-legacy)",
		"kube-proxy: chain KUBE-SERVICES of table nat (ip6tables-legacy)", "plumb-iptables: chain PLUMB-1 of table filter (ip6tables-legacy)")
	for _, cut := range [][]byte{nil, make([]byte, 10), make([]byte, 1000), bytes.Repeat([]byte{0xff}, 1000)} {
		if got := legacyFamilies[0].chains(cut); len(got) > 0 {
			t.Errorf("chains of nonsense: %q", got)
		}
	}
}

func TestVirtualServices(t *testing.T) {
	const head = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n"
	for text, line := range map[string]string{
		"":   "",
		head: "",
		head + "TCP  0A600001:01BB rr\n  -> AC120002:192B      Masq    1      0          0\nUDP  0A60000A:0035 rr\n": "IPVS: 2 virtual services, the first 10.96.0.1:443/TCP",
		head + "SCTP [fd00:0000:0000:0000:0000:0000:0000:0001]:0050 rr\n":                                            "IPVS: 1 virtual services, the first [fd00::1]:80/SCTP",
		head + "FWM  00000007 rr\n": "IPVS: 1 virtual services, the first mark 00000007",
	} {
		got := ""
		for _, f := range ofVirtual(text) {
			got += f.String()
		}
		if got != line {
			t.Errorf("%q: %q, want %q", text, got, line)
		}
	}
}

// TestLinksAndProcesses: agents are told where they run, and what only looks is none.
func TestLinksAndProcesses(t *testing.T) {
	need.Root(t)
	ns, beside := netns.ForTest(t, "n"), netns.ForTest(t, "m")
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"kube-proxy", "cilium-agent", "plumb-proxy", "nginx"} {
		if err := os.WriteFile(filepath.Join(dir, name), sleep, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(at *netns.NS, argv ...string) {
		cmd := exec.Command(filepath.Join(dir, argv[0]))
		cmd.Args = argv
		if err := at.Do(cmd.Start); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	begin(ns, "kube-proxy", "600")
	begin(ns, "nginx", "600")
	begin(beside, "cilium-agent", "600")
	begin(beside, "plumb-proxy", "600")
	err = ns.Do(func() error {
		for _, name := range []string{"kube-ipvs0", "cilium_host", "eth1"} { // of whatever kind
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "peer-" + name[:4]}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, find(t, ns, ""), "kube-proxy: process kube-proxy", "kube-proxy: link kube-ipvs0", "Cilium: link cilium_host")
	want(t, find(t, beside, ""), "Cilium: process cilium-agent", "plumb-proxy: process plumb-proxy")
	if dir := filepath.Join(t.TempDir(), "7"); !lookAt(t, dir, "/plumb-proxy\x00look\x00--connect=x\x00") || lookAt(t, dir, "/plumb-proxy\x00--node-name=look\x00") || lookAt(t, dir, "") {
		t.Error("what looks is told apart from what proxies by its command")
	}
}

func lookAt(t *testing.T, dir, cmdline string) bool {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cmdline"), []byte(cmdline), 0o644); err != nil {
		t.Fatal(err)
	}
	return looks(dir)
}

// TestPrograms: eBPF at the sockets' hooks of a cgroup hierarchy, whosever, and Cilium's
// and Calico's at links.
func TestPrograms(t *testing.T) {
	need.Root(t)
	ns := netns.ForTest(t, "n")
	tree := t.TempDir()
	if err := unix.Mount("none", tree, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(tree, 0); err != nil {
			t.Error(err)
		}
	})
	root := filepath.Join(tree, "plumbline-"+filepath.Base(filepath.Dir(tree))) // in the host's own others would find them
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(root); err != nil {
			t.Error(err)
		}
	})
	want(t, find(t, ns, root))
	if v1 := t.TempDir(); os.Symlink(root, filepath.Join(v1, "unified")) != nil || hierarchy(v1) != filepath.Join(v1, "unified") || hierarchy(root) != root {
		t.Errorf("the hierarchy beside those of cgroup v1: %q, %q", hierarchy(v1), hierarchy(root))
	}
	for name, at := range map[string]ebpf.AttachType{"cil_sock4_conne": ebpf.AttachCGroupInet4Connect, "turns_sendmsg": ebpf.AttachCGroupUDP6Sendmsg, "any_bind": ebpf.AttachCGroupInet4Bind} {
		p := program(t, name, ebpf.CGroupSockAddr, at, 1)
		l, err := link.AttachCgroup(link.CgroupOptions{Path: root, Attach: at, Program: p})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	err := ns.Do(func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth1"}, PeerName: "peer"}); err != nil {
			return err
		}
		eth1, err := netlink.LinkByName("eth1")
		if err != nil {
			return err
		}
		for name, at := range map[string]ebpf.AttachType{"cil_from_netdev": ebpf.AttachTCXIngress, "somebodys": ebpf.AttachTCXEgress} {
			l, err := link.AttachTCX(link.TCXOptions{Interface: eth1.Attrs().Index, Program: program(t, name, ebpf.SchedCLS, ebpf.AttachNone, -1), Attach: at})
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = l.Close() })
		}
		classifier := &netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: eth1.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}, QdiscType: "clsact"}
		if err := netlink.QdiscAdd(classifier); err != nil {
			return err
		}
		return netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: eth1.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
			Fd:          program(t, "cali_to_wl", ebpf.SchedCLS, ebpf.AttachNone, -1).FD(), Name: "cali_to_wl:[7]", DirectAction: true,
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, find(t, ns, root),
		"Cilium: program cil_sock4_conne at hook connect4 of the root cgroup", "an eBPF program: program turns_sendmsg at hook sendmsg6 of the root cgroup",
		"Cilium: tc programs, such as cil_from_netdev at link eth1", "Calico: tc programs, such as cali_to_wl at link eth1")
}

// TestHierarchyNowhere: where cgroup v2 is not mounted at the usual places, its root is the
// same that others have mounted elsewhere.
func TestHierarchyNowhere(t *testing.T) {
	need.Root(t)
	fd, err := openHierarchy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var here, there unix.Stat_t
	if err := unix.Fstat(fd, &here); err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	if err := unix.Mount("none", tree, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(tree, 0)
	if err := unix.Stat(tree, &there); err != nil || here.Ino != there.Ino || here.Dev != there.Dev {
		t.Errorf("%v: root %d:%d, want %d:%d", err, here.Dev, here.Ino, there.Dev, there.Ino)
	}
}

// TestSteady: what came or went meanwhile is looked at anew, and nothing else is.
func TestSteady(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		errs  []error
		want  error
		times int
	}{
		{[]error{nil}, nil, 1}, {[]error{netlink.ErrDumpInterrupted, unix.ENODEV, nil}, nil, 3},
		{[]error{broken, nil}, broken, 1}, {[]error{unix.ENOENT, unix.ENOENT, unix.ENOENT, unix.ENOENT, unix.ENOENT, nil}, unix.ENOENT, tries},
	} {
		times := 0
		_, err := steady(func() ([]Trace, error) { times++; return nil, c.errs[times-1] })
		if !errors.Is(err, c.want) || times != c.times {
			t.Errorf("%v: %v after %d", c.errs, err, times)
		}
	}
}

// program is one that only returns a number.
func program(t *testing.T, name string, kind ebpf.ProgramType, at ebpf.AttachType, number int32) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: kind, AttachType: at, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, number), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}
