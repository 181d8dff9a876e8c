package dptest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Step is a state of the objects, and what packets do in it.
type Step struct {
	Number  int              // from 1
	Changes []objects.Change // since the step before; of the first step, everything
	Objects *objects.Snapshot
	Packets []Row

	options plan.Options
	peers   map[string]peer
}

// peer is what a section says of upstream kube-proxy.
type peer struct {
	rows []Row
	skip string // not to be compared at all, for this reason
}

// Plan is the step's plan.
func (s *Step) Plan() *plan.Plan { return plan.Build(s.Objects, s.options) }

// Section is a section's name in this step: the bare one in the first.
func (s *Step) Section(name string) string { return ofStep(name, s.Number) }

// Peer is what upstream kube-proxy does in the first step; see Step.Peer.
func (c *Case) Peer(mode string) (rows []Row, skip string) { return c.Steps[0].Peer(mode) }

// Peer is what upstream kube-proxy does in a mode ("nftables", "iptables"): the
// packets, with the rows replaced that its sections answer otherwise; the mode's
// own section before the one for both. A section that holds only the line
// "not-applicable" takes the step out of the comparison; its remark says why.
func (s *Step) Peer(mode string) (rows []Row, skip string) {
	rows = slices.Clone(s.Packets)
	for _, section := range []string{peerSection, peerSection + "-" + mode} {
		p := s.peers[section]
		if p.skip != "" {
			return nil, p.skip
		}
		for _, r := range p.rows {
			rows[slices.IndexFunc(rows, r.about)] = r
		}
	}
	return rows, ""
}

const peerSection = "kube-proxy"

func peerSections() []string {
	return []string{peerSection, peerSection + "-nftables", peerSection + "-iptables"}
}

// stepSections may occur in each step, caseSections once.
func stepSections() []string { return append(peerSections(), "plan", "packets") }

func caseSections() []string { return []string{"options", "objects.yaml"} }

// ofBackend says whether a section is what a backend renders: it is called as the backend's
// folder, which lies beside the cases'.
func (c *Case) ofBackend(section string) bool {
	if slices.Contains(stepSections(), section) {
		return false
	}
	st, err := os.Stat(filepath.Join(filepath.Dir(c.path), "..", section, "render.go"))
	return err == nil && st.Mode().IsRegular()
}

// ShowsRules says whether the case is one of those in which rules can be read: those with
// any backend's section.
func (c *Case) ShowsRules() bool {
	return slices.ContainsFunc(c.archive.Files, func(f txtar.File) bool { return c.ofBackend(f.Name) })
}

// byHand tells whether a section is a person's.
func byHand(section string) bool {
	name, _ := splitStep(section)
	return slices.Contains(append(peerSections(), "options", "objects.yaml", "packets", "then.yaml", "delete"), name)
}

// numbered is a section of a later step: plan-2, then-2.yaml.
var numbered = regexp.MustCompile(`^(.+)-([2-9])(\.yaml)?$`)

func splitStep(section string) (name string, step int) {
	m := numbered.FindStringSubmatch(section)
	if m == nil {
		return section, 1
	}
	step, _ = strconv.Atoi(m[2])
	return m[1] + m[3], step
}

func ofStep(name string, step int) string {
	if step == 1 {
		return name
	}
	base, yaml := strings.CutSuffix(name, ".yaml")
	out := fmt.Sprintf("%s-%d", base, step)
	if yaml {
		out += ".yaml"
	}
	return out
}

// checkSections finds misspelt, doubled and orphaned sections.
func (c *Case) checkSections() error {
	seen := map[string]bool{}
	for _, f := range c.archive.Files {
		name, step := splitStep(f.Name)
		ok := slices.Contains(stepSections(), name) || c.ofBackend(name)
		if step == 1 {
			ok = ok || slices.Contains(caseSections(), name)
		} else {
			ok = ok || name == "then.yaml" || name == "delete"
		}
		if !ok {
			return fmt.Errorf("section %s: unknown", f.Name)
		}
		if seen[f.Name] {
			return fmt.Errorf("section %s: twice", f.Name)
		}
		if step > c.lastStep() {
			return fmt.Errorf("section %s: no packets of step %d", f.Name, step)
		}
		seen[f.Name] = true
	}
	return nil
}

func (c *Case) lastStep() int {
	n := 1
	for c.Section(ofStep("packets", n+1)) != "" {
		n++
	}
	return n
}

func (c *Case) readSteps() error {
	first, err := c.decode("objects.yaml")
	if err != nil {
		return fmt.Errorf("objects.yaml: %w", err)
	}
	if first.Node == nil {
		n := Node()
		first.Apply(objects.Change{Node: &n})
	}
	local := Local()
	first.Apply(objects.Change{Local: &local})
	var all []objects.Change
	for n := 1; n <= c.lastStep(); n++ {
		s := &Step{Number: n, options: c.Options, Objects: &objects.Snapshot{}}
		s.Changes = changes(first)
		if n > 1 {
			if s.Changes, err = c.stepChanges(n, c.Steps[n-2].Objects); err != nil {
				return err
			}
		}
		all = append(all, s.Changes...)
		for _, change := range all {
			s.Objects.Apply(change)
		}
		if err := c.readRows(s); err != nil {
			return err
		}
		c.Steps = append(c.Steps, s)
	}
	return nil
}

func (c *Case) decode(section string) (*objects.Snapshot, error) {
	text := []byte(c.Section(section))
	if c.badObjects && len(text) > 0 {
		return decodeBad(text)
	}
	return objects.Decode(text)
}

// stepChanges reads then-N.yaml and delete-N.
func (c *Case) stepChanges(n int, before *objects.Snapshot) ([]objects.Change, error) {
	var out []objects.Change
	section := ofStep("delete", n)
	for _, line := range lines(c.Section(section)) {
		line, _, _ = strings.Cut(line, "#")
		gone, err := parseGone(strings.Fields(line), before)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", section, line, err)
		}
		out = append(out, objects.Change{Gone: &gone})
	}
	section = ofStep("then.yaml", n)
	then, err := c.decode(section)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", section, err)
	}
	for _, change := range changes(then) {
		if sl := change.Slice; sl != nil {
			if owner, ok := ownerOf(before, sl.Name); ok && owner != sl.Service {
				out = append(out, objects.Change{Gone: &objects.Gone{Kind: objects.KindSlice, Name: sl.Name, Service: owner}})
			}
		}
		out = append(out, change)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("step %d changes nothing", n)
	}
	return out, nil
}

func parseGone(f []string, snap *objects.Snapshot) (objects.Gone, error) {
	if len(f) != 2 {
		return objects.Gone{}, fmt.Errorf("want: kind name")
	}
	ns, name, namespaced := strings.Cut(f[1], "/")
	g := objects.Gone{Name: objects.Name{Namespace: ns, Name: name}}
	known := false
	switch f[0] {
	case "Service":
		g.Kind = objects.KindService
		_, known = snap.Services[g.Name]
	case "EndpointSlice":
		g.Kind = objects.KindSlice
		g.Service, known = ownerOf(snap, g.Name)
	case "ServiceCIDR":
		g.Kind, g.Name = objects.KindServiceCIDR, objects.Name{Name: f[1]}
		_, known = snap.ServiceCIDRs[f[1]]
		namespaced = !namespaced
	default:
		return g, fmt.Errorf("unknown kind %q", f[0])
	}
	if !known || !namespaced {
		return g, fmt.Errorf("no such object")
	}
	return g, nil
}

// ownerOf is the Service a slice belongs to.
func ownerOf(snap *objects.Snapshot, slice objects.Name) (objects.Name, bool) {
	for svc, all := range snap.Slices {
		if slices.ContainsFunc(all, func(sl objects.EndpointSlice) bool { return sl.Name == slice }) {
			return svc, true
		}
	}
	return objects.Name{}, false
}

// changes makes a snapshot out of nothing, in a fixed order.
func changes(snap *objects.Snapshot) []objects.Change {
	var out []objects.Change
	if snap.Node != nil {
		out = append(out, objects.Change{Node: snap.Node})
	}
	if snap.Local != nil {
		out = append(out, objects.Change{Local: &snap.Local})
	}
	for _, name := range slices.Sorted(maps.Keys(snap.ServiceCIDRs)) {
		cidr := snap.ServiceCIDRs[name]
		out = append(out, objects.Change{ServiceCIDR: &cidr})
	}
	for _, name := range slices.SortedFunc(maps.Keys(snap.Services), objects.Name.Compare) {
		svc := snap.Services[name]
		out = append(out, objects.Change{Service: &svc})
	}
	for _, svc := range slices.SortedFunc(maps.Keys(snap.Slices), objects.Name.Compare) {
		for _, sl := range snap.Slices[svc] {
			out = append(out, objects.Change{Slice: &sl})
		}
	}
	return out
}

func (c *Case) readRows(s *Step) error {
	section := s.Section("packets")
	var err error
	if s.Packets, err = parseRows(c.Section(section)); err != nil {
		return fmt.Errorf("%s: %w", section, err)
	}
	if len(s.Packets) == 0 {
		return fmt.Errorf("%s: none: a case without them says nothing", section)
	}
	s.peers = map[string]peer{}
	for _, name := range peerSections() {
		if s.peers[name], err = parsePeer(c.Section(s.Section(name)), s.Packets); err != nil {
			return fmt.Errorf("%s: %w", s.Section(name), err)
		}
	}
	return nil
}

// parsePeer reads rows that must each replace one of the packets, and say why.
func parsePeer(text string, packets []Row) (peer, error) {
	if all := lines(text); len(all) == 1 {
		word, why, _ := strings.Cut(all[0], "#")
		if strings.TrimSpace(word) == "not-applicable" && strings.TrimSpace(why) != "" {
			return peer{skip: strings.TrimSpace(why)}, nil
		}
	}
	rows, err := parseRows(text)
	for _, r := range rows {
		at := slices.IndexFunc(packets, r.about)
		switch {
		case at < 0:
			return peer{}, fmt.Errorf("%q: no such packet", r.Line)
		case r.Note == "":
			return peer{}, fmt.Errorf("%q: no source: say after # where this is written", r.Line)
		case r.Outcome() == packets[at].Outcome():
			return peer{}, fmt.Errorf("%q: no difference", r.Line)
		}
	}
	return peer{rows: rows}, err
}
