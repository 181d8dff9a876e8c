package dptest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Row is one line of the packets.
type Row struct {
	Line   string
	Note   string // what follows a # on the line
	From   Source
	Proto  objects.Protocol
	To     netip.AddrPort
	Action plan.Action // "" for pass
	Dests  []Dest      // of plan.Forward, sorted
	Sticky bool        // the source stays with one of Dests
	Same   bool        // with the one it had before, if that is among Dests; implies Sticky
	Soft   bool        // what is refused may leave a socket waiting; see answer
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
		switch {
		case r.Same:
			out = append(out, "same")
		case r.Sticky:
			out = append(out, "sticky")
		}
		for _, d := range r.Dests {
			out = append(out, d.String())
		}
		return strings.Join(out, " ")
	case plan.Reject:
		if r.Soft {
			return softly
		}
	}
	return string(r.Action)
}

// softly is the outcome of refusals by ICMP, of TCP over IPv6.
const softly = "soft-reject"

// about tells whether two rows are about the same packet.
func (r Row) about(o Row) bool { return r.From == o.From && r.Proto == o.Proto && r.To == o.To }

// Packet is the row's first packet.
func (r Row) Packet() plan.Packet {
	return plan.Packet{Src: r.From.Addr(r.To.Addr()), Dst: r.To.Addr(), Protocol: r.Proto, Port: r.To.Port(), FromNode: r.From == Self, Here: r.From.here(), In: r.From.link()}
}

// Resolve is what the oracle says of a row, in the row's form. Affinity is told
// where there is a choice, or the row asks for it.
func (r Row) Resolve(p *plan.Plan) Row { return r.in(plan.Resolve(p, r.Packet())) }

func (r Row) in(out plan.Outcome) Row {
	got := Row{Line: r.Line, From: r.From, Proto: r.Proto, To: r.To, Action: out.Action}
	for _, d := range out.To {
		got.Dests = append(got.Dests, Dest{At: netip.AddrPortFrom(d.Endpoint.Addr, d.Endpoint.Port), Masked: d.Masquerade})
	}
	sortDests(got.Dests)
	got.Sticky = out.Affinity > 0 && (len(got.Dests) > 1 || r.Sticky)
	got.Same = got.Sticky && r.Same
	return got
}

// parseRows reads a section of rows.
func parseRows(text string) ([]Row, error) {
	var out []Row
	for _, line := range lines(text) {
		row, err := parseRow(line)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		if slices.ContainsFunc(out, row.about) {
			return nil, fmt.Errorf("%q: twice", line)
		}
		out = append(out, row)
	}
	return out, nil
}

func parseRow(line string) (Row, error) {
	line, note, _ := strings.Cut(line, "#")
	f := strings.Fields(line)
	if len(f) < 4 {
		return Row{}, fmt.Errorf("want: from proto address:port outcome")
	}
	row := Row{Line: strings.Join(f, " "), Note: strings.TrimSpace(note), From: Source(f[0])}
	if !row.From.known() {
		return Row{}, fmt.Errorf("unknown source %q", f[0])
	}
	at := slices.IndexFunc(protocols(), func(p objects.Protocol) bool { return p.String() == f[1] })
	if at < 0 {
		return Row{}, fmt.Errorf("unknown protocol %q", f[1])
	}
	row.Proto = protocols()[at]
	var err error
	if row.To, err = netip.ParseAddrPort(f[2]); err != nil {
		return Row{}, err
	}
	return row, row.outcome(f[3:])
}

func protocols() []objects.Protocol {
	return []objects.Protocol{objects.TCP, objects.UDP, objects.SCTP}
}

// outcome reads the rest of a row's line.
func (r *Row) outcome(f []string) error {
	switch f[0] {
	case "pass", "drop", "reject", softly:
		if len(f) > 1 {
			return fmt.Errorf("nothing may follow %q", f[0])
		}
		switch f[0] {
		case "pass":
		case softly:
			r.Action, r.Soft = plan.Reject, true
		default:
			r.Action = plan.Action(f[0])
		}
		return nil
	case "sticky", "same":
		r.Sticky, r.Same = true, f[0] == "same"
		f = f[1:]
	}
	if len(f) == 0 {
		return fmt.Errorf("no destination")
	}
	r.Action = plan.Forward
	for _, text := range f {
		at, masked := strings.CutSuffix(text, "@node")
		ap, err := netip.ParseAddrPort(at)
		if err != nil {
			return err
		}
		if ap.Addr().Is6() != r.To.Addr().Is6() {
			return fmt.Errorf("destination %s is of another family", ap)
		}
		r.Dests = append(r.Dests, Dest{At: ap, Masked: masked})
	}
	sortDests(r.Dests)
	return nil
}

func sortDests(d []Dest) {
	slices.SortFunc(d, func(a, b Dest) int { return a.At.Compare(b.At) })
}

// lines are those that hold something beside a comment.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "#")
		if strings.TrimSpace(code) != "" {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}
