// Package row names what is measured: a dataplane in a mode.
package row

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/nearest"
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

// Says is what the row is, and what is promised of it, in a phrase.
func (r Row) Says() string {
	switch {
	case r.Dataplane == Existing:
		return "what an existing cluster has already"
	case r.Dataplane == Manifest:
		return "what the objects of a file install"
	case !r.Own():
		return "upstream kube-proxy, mode " + r.Mode + ": what ours is compared with"
	case r.Ignores() && r.NoLocal == "drop":
		return "ours, without KEP-1669: no notice of terminating pods, and silence where no other is local; loses what the model says"
	case r.Ignores():
		return "ours, without KEP-1669: no notice of terminating pods, and a refusal where no other is local; loses what the model says"
	}
	return "ours, with KEP-1669: falls back to terminating pods that serve; may lose nothing"
}

// Each are all rows that can be asked for by a name alone, ours first.
func Each() []Row {
	var out []Row
	for _, b := range cluster.Backends() {
		out = append(out, Own(b.Name, "fallback", "drop"), Own(b.Name, "ignore", "drop"), Own(b.Name, "ignore", "reject"))
	}
	return append(out, Row{Dataplane: Upstream, Mode: "nftables"}, Row{Dataplane: Upstream, Mode: "iptables"}, Row{Dataplane: Existing})
}

// Own is ours with a backend.
func Own(backend, terminating, noLocal string) Row {
	return Row{Dataplane: "plumb-" + backend, Mode: backend, Terminating: terminating, NoLocal: noLocal}
}

// known are the dataplanes that can be asked for by a name alone.
func known() map[string]Row {
	out := map[string]Row{}
	for _, r := range Each() {
		out[r.Name()] = r
		if r.Own() && !r.Ignores() { // as it is meant to be
			out[r.Dataplane] = r
		}
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

// All is what the default matrix is asked for by.
const All = "all"

// Parse reads a comma-separated list of names, or All.
func Parse(list string) ([]Row, error) {
	if list == All {
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
	r, ok := known()[name]
	if !ok && name == All {
		return Row{}, fmt.Errorf("%s stands alone, for the default matrix: %s", All, Names(Default()))
	}
	if !ok {
		hint := nearest.Hint(name, Known())
		if hint == "" {
			hint = "; known: " + strings.Join(Known(), ", ")
		}
		return Row{}, fmt.Errorf("unknown dataplane row %q%s (plumbline list rows says more)", name, hint)
	}
	return r, nil
}

// Known are the names by which Find knows rows.
func Known() []string { return append(slices.Sorted(maps.Keys(known())), Manifest+":FILE") }

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
