// Package row names what is measured: a dataplane in a mode.
package row

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/fixtures/cluster"
)

// Rows that are not a dataplane of the harness.
const (
	Existing = "existing" // what the cluster has already; nothing is installed
	Manifest = "manifest" // what a file of the user's installs
)

// Upstream is the dataplane that others are measured beside.
const Upstream = "kube-proxy"

// Row is one dataplane in one mode.
type Row struct {
	Dataplane   string // "plumb-nftables", Upstream, Existing or Manifest
	Mode        string // own: its backend; Upstream: its mode; Manifest: the file
	Terminating string // own: "fallback" or "ignore"
	NoLocal     string // own: "drop" or "reject"
	// Declared says that it is declared to have KEP-1669, by whoever answers for it: the row
	// is held to that.
	Declared bool
	// FailOn says that who runs it wants a loss to fail the run, whatever it claims.
	FailOn bool
}

// Own says whether the dataplane is the project's.
func (r Row) Own() bool { return strings.HasPrefix(r.Dataplane, "plumb-") }

// Foreign says whether the harness knows nothing of it but what the user says.
func (r Row) Foreign() bool { return r.Dataplane == Existing || r.Dataplane == Manifest }

// Ignores says that it takes no notice of terminating endpoints, as before KEP-1669.
func (r Row) Ignores() bool { return r.Terminating == "ignore" }

// Judged says whether a loss is its fault: ours with the fallback, others that are declared
// to have it, and whichever it is asked of. Upstream is what they are compared with.
func (r Row) Judged() bool { return r.Own() && !r.Ignores() || r.Declared || r.FailOn }

func (r Row) String() string {
	switch {
	case r.Dataplane == Existing:
		return Existing
	case r.Dataplane == Manifest:
		return Manifest + " " + filepath.Base(r.Mode)
	case !r.Own():
		return r.Dataplane + " " + r.Mode
	case r.Ignores():
		return r.Dataplane + " " + r.Terminating + "+" + r.NoLocal
	}
	return r.Dataplane + " fallback"
}

// Name is what it is asked for by.
func (r Row) Name() string {
	if r.Dataplane == Manifest {
		return Manifest + ":" + r.Mode
	}
	return strings.Replace(r.String(), " ", ":", 1)
}

// Own is ours with a backend.
func Own(backend, terminating, noLocal string) Row {
	return Row{Dataplane: "plumb-" + backend, Mode: backend, Terminating: terminating, NoLocal: noLocal}
}

// known are the dataplanes that can be asked for by a name alone.
func known() map[string]Row {
	out := map[string]Row{}
	add := func(r Row) { out[r.Name()] = r }
	add(Row{Dataplane: Existing})
	for _, mode := range []string{"nftables", "iptables"} {
		add(Row{Dataplane: Upstream, Mode: mode})
	}
	for _, b := range cluster.Backends() {
		meant := Own(b.Name, "fallback", "drop")
		out[meant.Dataplane] = meant
		add(meant)
		add(Own(b.Name, "ignore", "drop"))
		add(Own(b.Name, "ignore", "reject"))
	}
	return out
}

// Default is the default matrix, in the order it runs: what the fallback cures is shown
// with the first of our own.
func Default() []Row {
	var out []Row
	for i, b := range cluster.Backends() {
		out = append(out, Own(b.Name, "fallback", "drop"))
		if i == 0 {
			out = append(out, Own(b.Name, "ignore", "drop"), Own(b.Name, "ignore", "reject"))
		}
	}
	return append(out, Row{Dataplane: Upstream, Mode: "nftables"}, Row{Dataplane: Upstream, Mode: "iptables"})
}

// Names are those of rows, as Parse reads them.
func Names(rows []Row) string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Name())
	}
	return strings.Join(out, ",")
}

// Parse reads a comma-separated list of names; "all" is the default matrix.
func Parse(list string) ([]Row, error) {
	if list == "all" {
		return Default(), nil
	}
	var out []Row
	for _, name := range strings.Split(list, ",") {
		r, err := Find(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, r) {
			return nil, fmt.Errorf("dataplane row %q is named twice", strings.TrimSpace(name))
		}
		out = append(out, r)
	}
	return out, nil
}

// Find reads one name.
func Find(name string) (Row, error) {
	if file, ok := strings.CutPrefix(name, Manifest+":"); ok && file != "" {
		return Row{Dataplane: Manifest, Mode: file}, nil
	}
	all := known()
	r, ok := all[name]
	if !ok {
		return Row{}, fmt.Errorf("unknown dataplane row %q; known: %s, %s:FILE", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "), Manifest)
	}
	return r, nil
}

// FailOn has the rows of these names judged.
func FailOn(rows []Row, names []string) error {
	for _, name := range names {
		want, err := Find(name)
		if err != nil {
			return fmt.Errorf("--fail-on: %w", err)
		}
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Name() == want.Name() })
		if i < 0 {
			return fmt.Errorf("--fail-on %s: it is not among the rows to run: %s", name, Names(rows))
		}
		rows[i].FailOn = true
	}
	return nil
}
