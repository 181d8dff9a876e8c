package kit

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// How long a command of the declaration may take that is asked for evidence, how long after a signal it is
// killed, and how much of what it prints is kept.
const (
	askLimit  = 5 * time.Second
	askKill   = time.Second
	keepAsked = 16 << 10
)

// placeholders are what stands for a frontend in the declaration's commands.
var placeholders = regexp.MustCompile(`\{[A-Za-z_-]+\}`) // const

// frontend is what a command is asked about.
type frontend struct {
	target Target
	node   bool // it is a port of a node, whatever the node's address
}

// words are those of a command about the frontend: {address}, {port}, {protocol} (tcp), {frontend}
// (address and port) and {family} (ipv4) are its own.
func (f frontend) words(argv []string) []string {
	at := netip.AddrPortFrom(f.target.to.Addr().Unmap(), f.target.to.Port())
	replace := strings.NewReplacer(
		"{address}", at.Addr().String(), "{port}", fmt.Sprint(at.Port()), "{protocol}", string(f.target.network), "{frontend}", at.String(),
		"{family}", strings.ToLower(string(f.target.family())),
	)
	out := disrupt.InFamily(argv, f.target.family())
	for i, word := range out {
		out[i] = replace.Replace(word)
	}
	return out
}

// CheckEvidence says what is wrong with a command that is to be asked for evidence.
func CheckEvidence(argv []string) error {
	if len(argv) == 0 {
		return fmt.Errorf("evidence: a command without words")
	}
	for _, word := range argv {
		for _, p := range placeholders.FindAllString(word, -1) {
			if known := []string{"{address}", "{port}", "{protocol}", "{frontend}", "{family}"}; !slices.Contains(known, p) {
				return fmt.Errorf("evidence: %s stands for nothing; known: %s", p, strings.Join(known, ", "))
			}
		}
	}
	return nil
}

// keepFrontend keeps what the nodes involved in the last attempts have for what was dialled, and for
// nothing else, by the declaration's own commands. Nodes are asked side by side.
func (e *Env) keepFrontend(s *Spec) {
	if e.cfg.Dir == "" || s.last.client.Name == "" || len(e.cfg.Evidence) == 0 {
		return
	}
	f := frontend{s.last.to, s.nodeAt(s.last.to.to.Addr().Unmap()) != nil}
	var within []*Node
	var beyond []string
	for _, n := range e.involved(s.last) {
		if n.NetNS == "" {
			beyond = append(beyond, n.Name)
			continue
		}
		within = append(within, n)
	}
	printed := make([]string, len(within))
	var asked sync.WaitGroup
	for i, n := range within {
		asked.Go(func() { printed[i] = e.about(s.ctx, n, f) })
	}
	asked.Wait()
	for i, n := range within {
		s.keep(n.Name+"-frontend.txt", printed[i])
		s.printed += printed[i]
	}
	if len(beyond) > 0 {
		s.Say("what nodes have for %s was not asked where there is no way into them: %s", f.target, strings.Join(beyond, ", "))
	}
}

// about is what a node says of a frontend.
func (e *Env) about(ctx context.Context, n *Node, f frontend) string {
	var all strings.Builder
	for _, argv := range e.cfg.Evidence {
		argv = f.words(argv)
		fmt.Fprintf(&all, "$ %s\n%s\n", strings.Join(argv, " "), bounded(e.asked(ctx, n, f, argv), keepAsked))
	}
	return all.String()
}

// involved are the nodes that a trial's packets meet: those that they arrive at, the client's, and the servers'; of
// nothing that was attempted, all.
func (e *Env) involved(t trial) (out []*Node) {
	if t.client.Name == "" {
		return e.nodes
	}
	servers := e.servers(t)
	arrive := e.arrivals(t, servers)
	for _, n := range e.nodes {
		has := func(c Client) bool {
			return slices.ContainsFunc(n.clients(), func(o Client) bool { return o.Name == c.Name })
		}
		if slices.Contains(arrive, n) || has(t.client) || slices.ContainsFunc(servers, has) {
			out = append(out, n)
		}
	}
	return out
}

// equipped is a stage that has the project's own programs, on this host.
type equipped interface{ Own(program string) string }

// asked is what a command prints at a node, with what went wrong. The project's own programs are run
// from this host, in the node's network; of what lists all rules that part is kept that is about the frontend.
// Others are ended in the node itself: to end what was asked of a container's engine ends no command.
func (e *Env) asked(ctx context.Context, n *Node, f frontend, argv []string) string {
	ctx, cancel := context.WithTimeout(ctx, askLimit+3*askKill)
	defer cancel()
	var own string
	if st, ok := e.stage.(equipped); ok {
		own = st.Own(argv[0])
	}
	var out string
	var err error
	if own != "" {
		out, err = inNode(ctx, n, own, argv)
	} else {
		limited := []string{"timeout", "-k", fmt.Sprint(askKill.Seconds()), fmt.Sprint(askLimit.Seconds())}
		out, err = e.stage.Cluster().Exec(ctx, n.Name, append(limited, argv...)...)
	}
	if program := path.Base(argv[0]); program == "nft" || strings.HasSuffix(program, "-save") {
		out = rulesAbout(out, f.match)
	}
	if err != nil {
		out += fmt.Sprintf("(%v)\n", err)
	}
	return out
}

// inNode runs one of the project's programs in a node's network.
func inNode(ctx context.Context, n *Node, program string, argv []string) (string, error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Args[0], cmd.Stdout, cmd.Stderr = argv[0], &out, &said
	if err := netns.At(n.NetNS).Do(cmd.Run); err != nil {
		return out.String(), fmt.Errorf("run %s in the network of node %s: %w: %s", argv[0], n.Name, err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// match tells whether a rule names the frontend: its address and its port, or a node's port alone.
func (f frontend) match(rule string) bool {
	addr, port := f.target.to.Addr().Unmap(), fmt.Sprint(f.target.to.Port())
	words := strings.FieldsFunc(rule, func(r rune) bool { return strings.ContainsRune(" \t,{}", r) })
	at := slices.ContainsFunc(words, func(w string) bool { return w == addr.String() || w == netip.PrefixFrom(addr, addr.BitLen()).String() })
	return slices.Contains(words, port) && (at || f.node)
}

// bounded is the beginning of a text, which says so if it is not all.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + fmt.Sprintf("\n(the first %d of %d bytes)\n", limit, len(text))
}
