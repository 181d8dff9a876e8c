package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/report/render"
)

// diagnosis is what doctor says of a host.
type diagnosis struct {
	Rows     []host.Row  `json:"rows"`
	Clusters []readiness `json:"clusters"`
}

// readiness says whether clusters of a kind can be brought up.
type readiness struct {
	Kind  string   `json:"kind"` // lab or kind
	Ready bool     `json:"ready"`
	Lacks []string `json:"lacks"`            // names of the rows that keep it from coming up
	Blind int      `json:"unseen,omitempty"` // rows that were not looked at, without root
}

func diagnose(rows []host.Row) diagnosis {
	d := diagnosis{Rows: rows}
	for _, kind := range []string{host.Lab, host.Kind} {
		lacks := host.Obstacles(rows, kind)
		d.Clusters = append(d.Clusters, readiness{Kind: kind, Ready: len(lacks) == 0, Lacks: lacks, Blind: host.Unseen(rows)})
	}
	return d
}

// print writes the diagnosis. Its error says that no cluster can be brought up.
func (d diagnosis) print(p *printing, out io.Writer) error {
	var err error
	if p.data() {
		err = p.encode(out, d)
	} else {
		_, err = out.Write(d.text(p.wide(), width(out)))
	}
	if err != nil {
		return fmt.Errorf("print what this host has: %w", err)
	}
	if !slices.ContainsFunc(d.Clusters, func(r readiness) bool { return r.Ready }) {
		return errors.New("neither a lab nor a kind cluster can be brought up here: --fix=lab or --fix=kind installs what is missing")
	}
	return nil
}

// text is the table, a row's advice under it (wide: beside it), and a line for each kind of cluster.
func (d diagnosis) text(wide bool, width int) []byte {
	rows := [][]string{{"NAME", "STATUS", "VALUE"}}
	for _, r := range d.Rows {
		rows = append(rows, []string{r.Name, string(r.Status), r.Value})
	}
	if wide {
		rows[0] = append(rows[0], "WHAT TO DO")
		for i, r := range d.Rows {
			rows[i+1] = append(rows[i+1], r.Do)
		}
	}
	var table, b bytes.Buffer
	render.Table(&table, rows, func(string) bool { return false })
	lines := strings.SplitAfter(table.String(), "\n")
	for i, line := range lines[:len(rows)] {
		if wide {
			b.WriteString(line)
			continue
		}
		b.Write(render.Cut([]byte(line), width))
		if i > 0 && d.Rows[i-1].Do != "" {
			b.WriteString("  ")
			render.Wrap(&b, "> "+d.Rows[i-1].Do, width-2, "    ")
		}
	}
	b.WriteString("\n")
	for _, r := range d.Clusters {
		render.Wrap(&b, r.String(), width, "  ")
	}
	render.Wrap(&b, "existing: ready, with its kubeconfig; an HAProxy of ours in front of it (--lb=ours) needs root and haproxy", width, "  ")
	return b.Bytes()
}

func (r readiness) String() string {
	switch {
	case !r.Ready:
		return fmt.Sprintf("%s: not ready: %s", r.Kind, strings.Join(r.Lacks, ", "))
	case r.Blind > 0:
		return fmt.Sprintf("%s: ready, as far as can be seen without root (%d rows were not looked at)", r.Kind, r.Blind)
	}
	return r.Kind + ": ready"
}
