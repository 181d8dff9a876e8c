// Package dptest is the contract that every dataplane backend passes. A case is a
// txtar file in dataplane/testdata: one behaviour, with its source in the comment.
//
//	options       flags of plumb-proxy, if not the defaults; bad-objects=true
//	              has some that cannot be used in full, as a proxy meets them;
//	              sockets=true is of a backend that translates at sockets
//	objects.yaml  Services and EndpointSlices; the Node is Node below unless given
//	plan          what plan.Build makes of them            (rewritten by -update)
//	nftables      what that backend renders, and so on     (rewritten by -update);
//	              in some forty cases, which show each shape of rule there is
//	packets       rows written by hand from the cited source; never rewritten
//	kube-proxy    rows that upstream answers otherwise, with the source; also
//	              kube-proxy-nftables and kube-proxy-iptables, for one mode only
//
// A case may go on in steps 2, 3 ...; the backend follows them by difference:
//
//	then-2.yaml   objects created or replaced
//	delete-2      objects deleted, a line each: Service default/web,
//	              EndpointSlice default/web-1, ServiceCIDR name
//	plan-2, packets-2, kube-proxy-2 as above
//
// The packets are compared with plan.Resolve and, where the test runs as root,
// with what real packets do in Net, a node between namespaces.
//
// A row is
//
//	from proto address:port outcome    # remark
//
// from is one of Sources; the outcome is "pass" (no frontend), "drop", "reject",
// "soft-reject" (by ICMP, which may leave a socket of TCP over IPv6 waiting)
// or the destinations that must all be seen, each with @node if the source
// address is the node's there and bare if it is kept. "sticky" before the
// destinations is session affinity: the source stays with one of them. "same" is
// sticky to the one that the source had before, in an earlier row or step, if it
// is among those listed. Conntrack is emptied between steps; affinity is not.
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
	"github.com/plumbline/plumbline/dataplane/planflags"
)

// Case is one file. Objects and Packets are those of its first step.
type Case struct {
	Name    string
	Options plan.Options
	Objects *objects.Snapshot
	Packets []Row
	Steps   []*Step // never empty

	path       string
	archive    *txtar.Archive
	badObjects bool
}

// AtOnce is the plan of all cases, on the last one's node.
func AtOnce(all []*Case) *plan.Plan {
	p := &plan.Plan{Services: map[objects.Name]plan.Service{}}
	for _, c := range all {
		q := c.Plan()
		p.Node = q.Node
		for n, s := range q.Services {
			p.Services[objects.Name{Namespace: c.Name, Name: n.String()}] = s
		}
	}
	return p
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
	return parse(path, raw)
}

func parse(path string, raw []byte) (*Case, error) {
	c := &Case{
		Name: strings.TrimSuffix(filepath.Base(path), ".txtar"), Options: defaults(),
		path: path, archive: txtar.Parse(raw),
	}
	if len(bytes.TrimSpace(c.archive.Comment)) == 0 {
		return nil, fmt.Errorf("no comment: it must say which behaviour this is, and where that is written")
	}
	if err := c.checkSections(); err != nil {
		return nil, err
	}
	for _, line := range lines(c.Section("options")) {
		if err := c.option(line); err != nil {
			return nil, fmt.Errorf("options: %q: %w", line, err)
		}
	}
	if err := c.readSteps(); err != nil {
		return nil, err
	}
	c.Objects, c.Packets = c.Steps[0].Objects, c.Steps[0].Packets
	return c, nil
}

// like tells whether the name is as of a pattern of filepath.Match.
func (c *Case) like(pattern string) bool {
	ok, err := filepath.Match(pattern, c.Name)
	return ok && err == nil
}

// Plan is the plan of the case's first step.
func (c *Case) Plan() *plan.Plan { return c.Steps[0].Plan() }

// Section is the text of a part of the file, empty if there is none.
func (c *Case) Section(name string) string {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func defaults() plan.Options {
	return plan.Options{
		Node: NodeName, Terminating: plan.Fallback, NoLocal: plan.Drop,
		ClusterCIDRs: prefixes("10.244.0.0/16", "fd00:10:244::/56"),
	}
}

func (c *Case) option(line string) error {
	line, _, _ = strings.Cut(line, "#")
	name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
	var err error
	switch name {
	case "terminating-endpoints":
		c.Options.Terminating = plan.Terminating(value)
		err = oneOf(value, string(plan.Fallback), string(plan.Ignore))
	case "no-local-endpoints":
		c.Options.NoLocal = plan.Action(value)
		err = oneOf(value, string(plan.Drop), string(plan.Reject))
	case "cluster-cidr":
		c.Options.ClusterCIDRs, err = parsePrefixes(value)
	case "detect-local":
		c.Options.Local, c.Options.LocalLink, err = planflags.DetectLocal(value)
	case "masquerade-all":
		c.Options.MasqueradeAll = value == "true"
		err = oneOf(value, "true")
	case "nodeport-addresses":
		if value != "primary" {
			c.Options.NodePorts.Within, err = parsePrefixes(value)
		}
	case "bad-objects":
		c.badObjects = value == "true"
		err = oneOf(value, "true")
	case "sockets":
		c.Options.Sockets = value == "true"
		err = oneOf(value, "true")
	case "sctp":
		c.Options.SCTP = value == "true"
		err = oneOf(value, "true", "false")
	default:
		err = fmt.Errorf("unknown")
	}
	return err
}

func oneOf(value string, known ...string) error {
	if !slices.Contains(known, value) {
		return fmt.Errorf("want one of %q", known)
	}
	return nil
}

func parsePrefixes(list string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for text := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' }) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
