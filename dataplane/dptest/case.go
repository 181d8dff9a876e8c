// Package dptest is the contract that every dataplane backend passes. A case is a
// txtar file in dataplane/testdata: one behaviour, with its source in the comment.
//
//	options       flags of plumb-proxy, if not the defaults
//	objects.yaml  Services and EndpointSlices; the Node is Node below unless given
//	plan          what plan.Build makes of them            (rewritten by -update)
//	nftables      what that backend renders, and so on     (rewritten by -update)
//	packets       rows written by hand from the cited source; never rewritten
//
// The packets are compared with plan.Resolve and, where the test runs as root,
// with what real packets do in Net, a node between namespaces.
//
// A row is
//
//	from proto address:port outcome
//
// from is one of Sources; the outcome is "pass" (no frontend), "drop", "reject"
// or the destinations that must all be seen, each with @node if the source
// address is the node's there and bare if it is kept.
package dptest

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// NodeName is the node under test; "there" is the usual name of the other one.
const NodeName = "here"

// Source is a place that packets come from.
type Source string

// The sources.
const (
	Outside Source = "outside" // a client beyond the cluster
	PodA    Source = "pod-a"   // a pod on the node
	PodB    Source = "pod-b"   // another
	Remote  Source = "remote"  // a pod on the other node
	Self    Source = "node"    // the node itself
)

// Addrs are each source's addresses, IPv4 and IPv6.
func (s Source) Addrs() [2]netip.Addr {
	pair := func(v4, v6 string) [2]netip.Addr {
		return [2]netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}
	}
	switch s {
	case Outside:
		return pair("192.0.2.100", "2001:db8:2::100")
	case PodA:
		return pair("10.244.1.2", "fd00:10:244:1::2")
	case PodB:
		return pair("10.244.1.6", "fd00:10:244:1::6")
	case Remote:
		return pair("10.244.2.2", "fd00:10:244:2::2")
	}
	return pair("192.0.2.1", "2001:db8:2::1")
}

func (s Source) known() bool {
	return slices.Contains([]Source{Outside, PodA, PodB, Remote, Self}, s)
}

// Node is the node under test, as the API shows it.
func Node() objects.Node {
	return objects.Node{
		Name:        NodeName,
		InternalIPs: Self.addrs(),
		PodCIDRs:    []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")},
	}
}

func (s Source) addrs() []netip.Addr {
	a := s.Addrs()
	return a[:]
}

func defaults() plan.Options {
	return plan.Options{
		Node: NodeName, Terminating: plan.Fallback, NoLocal: plan.Drop,
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")},
	}
}

// Case is one file.
type Case struct {
	Name    string
	Options plan.Options
	Objects *objects.Snapshot
	Packets []Row

	path    string
	archive *txtar.Archive
}

// Row is one line of the packets.
type Row struct {
	Line   string
	From   Source
	Proto  objects.Protocol
	To     netip.AddrPort
	Action plan.Action // "" for pass
	Dests  []Dest      // of plan.Forward, sorted
}

// Dest is a destination and the source seen there.
type Dest struct {
	At     netip.AddrPort
	Masked bool // the source is one of the node's addresses
}

func (d Dest) String() string {
	if d.Masked {
		return d.At.String() + "@node"
	}
	return d.At.String()
}

// Outcome is the row's outcome in the words of the packets section.
func (r Row) Outcome() string {
	switch r.Action {
	case "":
		return "pass"
	case plan.Forward:
		var out []string
		for _, d := range r.Dests {
			out = append(out, d.String())
		}
		return strings.Join(out, " ")
	}
	return string(r.Action)
}

// Load reads every case of a directory, sorted by name.
func Load(dir string) ([]*Case, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("find cases in %s: %d found, %v", dir, len(paths), err)
	}
	slices.Sort(paths)
	var out []*Case
	for _, path := range paths {
		c, err := load(path)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", path, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func load(path string) (*Case, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &Case{
		Name: strings.TrimSuffix(filepath.Base(path), ".txtar"), Options: defaults(),
		path: path, archive: txtar.Parse(raw),
	}
	if len(bytes.TrimSpace(c.archive.Comment)) == 0 {
		return nil, fmt.Errorf("no comment: it must say which behaviour this is, and where that is written")
	}
	if c.Objects, err = objects.Decode([]byte(c.Section("objects.yaml"))); err != nil {
		return nil, fmt.Errorf("objects.yaml: %w", err)
	}
	if c.Objects.Node == nil {
		n := Node()
		c.Objects.Node = &n
	}
	for _, line := range lines(c.Section("options")) {
		if err := c.option(line); err != nil {
			return nil, err
		}
	}
	for _, line := range lines(c.Section("packets")) {
		row, err := parseRow(line)
		if err != nil {
			return nil, fmt.Errorf("packets: %q: %w", line, err)
		}
		c.Packets = append(c.Packets, row)
	}
	if len(c.Packets) == 0 {
		return nil, fmt.Errorf("no packets: a case without them says nothing")
	}
	return c, nil
}

func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

func (c *Case) option(line string) error {
	name, value, _ := strings.Cut(line, "=")
	switch name {
	case "terminating-endpoints":
		c.Options.Terminating = plan.Terminating(value)
	case "no-local-endpoints":
		c.Options.NoLocal = plan.Action(value)
	case "cluster-cidr":
		c.Options.ClusterCIDRs = nil
		for _, text := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return fmt.Errorf("options: %q: %w", line, err)
			}
			c.Options.ClusterCIDRs = append(c.Options.ClusterCIDRs, p)
		}
	default:
		return fmt.Errorf("options: %q: unknown", line)
	}
	return nil
}

func parseRow(line string) (Row, error) {
	f := strings.Fields(line)
	if len(f) < 4 {
		return Row{}, fmt.Errorf("want: from proto address:port outcome")
	}
	row := Row{Line: strings.Join(f, " "), From: Source(f[0])}
	if !row.From.known() {
		return Row{}, fmt.Errorf("unknown source %q", f[0])
	}
	switch f[1] {
	case "tcp":
		row.Proto = objects.TCP
	case "udp":
		row.Proto = objects.UDP
	default:
		return Row{}, fmt.Errorf("unknown protocol %q", f[1])
	}
	var err error
	if row.To, err = netip.ParseAddrPort(f[2]); err != nil {
		return Row{}, err
	}
	switch f[3] {
	case "pass":
	case "drop", "reject":
		row.Action = plan.Action(f[3])
	default:
		row.Action = plan.Forward
		row.Dests, err = parseDests(f[3:])
		return row, err
	}
	if len(f) > 4 {
		return Row{}, fmt.Errorf("nothing may follow %q", f[3])
	}
	return row, nil
}

func parseDests(fields []string) ([]Dest, error) {
	var out []Dest
	for _, text := range fields {
		at, masked := strings.CutSuffix(text, "@node")
		ap, err := netip.ParseAddrPort(at)
		if err != nil {
			return nil, err
		}
		out = append(out, Dest{At: ap, Masked: masked})
	}
	sortDests(out)
	return out, nil
}

func sortDests(d []Dest) {
	slices.SortFunc(d, func(a, b Dest) int { return a.At.Compare(b.At) })
}

// Plan is the case's plan.
func (c *Case) Plan() *plan.Plan { return plan.Build(c.Objects, c.Options) }

// Section is the text of a part of the file, empty if there is none.
func (c *Case) Section(name string) string {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// Update rewrites a section that a program may write.
func (c *Case) Update(name, text string) error {
	if name == "packets" || name == "objects.yaml" || name == "options" {
		return fmt.Errorf("update %s: section %s is written by hand", c.path, name)
	}
	files := c.archive.Files
	at := slices.IndexFunc(files, func(f txtar.File) bool { return f.Name == name })
	if at < 0 {
		at = slices.IndexFunc(files, func(f txtar.File) bool { return f.Name == "packets" })
		files = slices.Insert(files, at, txtar.File{Name: name})
	}
	files[at].Data = []byte(text)
	c.archive.Files = files
	if err := os.WriteFile(c.path, txtar.Format(c.archive), 0o644); err != nil {
		return fmt.Errorf("update %s: %w", c.path, err)
	}
	return nil
}

// Resolve is what the oracle says of a row, in the row's form.
func (r Row) Resolve(p *plan.Plan) Row {
	src := r.From.Addrs()[0]
	if r.To.Addr().Is6() {
		src = r.From.Addrs()[1]
	}
	out := plan.Resolve(p, plan.Packet{Src: src, Dst: r.To.Addr(), Protocol: r.Proto, Port: r.To.Port(), FromNode: r.From == Self})
	got := Row{Line: r.Line, From: r.From, Proto: r.Proto, To: r.To, Action: out.Action}
	for _, d := range out.To {
		got.Dests = append(got.Dests, Dest{At: netip.AddrPortFrom(d.Endpoint.Addr, d.Endpoint.Port), Masked: d.Masquerade})
	}
	sortDests(got.Dests)
	return got
}
