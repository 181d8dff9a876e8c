package kit

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// outfitted is a stage with a program of the project's own.
type outfitted struct {
	backdrop
	cluster cluster.Cluster
	program string
}

func (o *outfitted) Cluster() cluster.Cluster { return o.cluster }

func (o *outfitted) Own(name string) string { return map[string]string{"plumb-own": o.program}[name] }

// answers are those of nodes.
type answers struct {
	cluster.Cluster
	mu    *sync.Mutex
	asked map[string][]string // by node
}

func (a answers) Exec(_ context.Context, node string, argv ...string) (string, error) {
	command := strings.Join(argv, " ")
	a.mu.Lock()
	a.asked[node] = append(a.asked[node], command)
	a.mu.Unlock()
	if !strings.HasPrefix(command, "timeout -k 1 5 ") {
		return "", errors.New("nothing in the node ends it")
	}
	switch argv = argv[4:]; argv[0] {
	case "nft":
		return "table ip6 x {\n\tchain a {\n\t\tip6 daddr fd00::9 tcp dport 80 accept\n\t\tip6 daddr fd00::8 tcp dport 80 accept\n\t}\n}\n", nil
	case "long":
		return strings.Repeat("x", keepAsked+1), nil
	case "hangs":
		return "", errors.New("no such program")
	}
	return "", nil
}

// When a behaviour fails, the nodes that its last attempts met are asked what they have for their target, and
// for it alone; other nodes are not.
func TestKeepFrontend(t *testing.T) {
	s, c, a := capturing(t)
	at := func(addr string) map[corev1.IPFamily]netip.Addr {
		return families([]netip.Addr{netip.MustParseAddr(addr)})
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho it is asked of \"$1\"\nip -o link show dev eth0 | wc -l\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	nodes := answers{mu: &sync.Mutex{}, asked: map[string][]string{}}
	s.env.stage, s.env.cfg.Dir = &outfitted{cluster: nodes, program: program}, t.TempDir()
	s.env.nodes = []*Node{{Name: "a", NetNS: a.Path(), Client: c}, {Name: "b", NetNS: a.Path(), Client: Client{Name: "b", addrs: at("2001:db8::2")}}, {Name: "out", Client: Client{Name: "out"}}}
	s.Nodes = s.env.nodes
	s.env.cfg.Evidence = [][]string{
		{"plumb-own", "{protocol}://{frontend}"}, {"nft", "list", "table", "ip", "x"}, {"iptables-save", "{family}", "{address}", "{port}"}, {"long"}, {"hangs"},
	}
	s.tried(trial{client: c, to: TCP(netip.MustParseAddrPort("[fd00::9]:80")), servers: []Client{{Name: "out"}}, res: &remote.Results{}})
	s.env.keepFrontend(s)
	text := kept(t, s, "a-frontend.txt")
	for _, want := range []string{
		"$ plumb-own tcp://[fd00::9]:80\nit is asked of tcp://[fd00::9]:80\n1\n",
		"$ nft list table ip6 x\ntable ip6 x {\n\tchain a {\n\t\tip6 daddr fd00::9 tcp dport 80 accept\n\t}\n}\n",
		"$ ip6tables-save ipv6 fd00::9 80\n",
		"x\n(the first 16384 of 16385 bytes)\n", "$ hangs\n(no such program)\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without %q:\n%.2000s", want, text)
		}
	}
	if len(nodes.asked["b"]) > 0 || len(nodes.asked["a"]) != 4 {
		t.Errorf("asked: %q", nodes.asked)
	}
	if len(s.files) != 1 || len(s.said) != 1 || s.said[0] != "what nodes have for [fd00::9]:80/tcp was not asked where there is no way into them: out" {
		t.Errorf("files %q, said %q", s.files, s.said)
	}
}
