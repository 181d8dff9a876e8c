package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/row"
)

// lookAround finds who proxies Services in the cluster before a row is installed. Whoever
// does may be who answers later: then the row is refused, or its report says so.
func (e *Existing) lookAround(ctx context.Context, r row.Row) (map[string][]string, error) {
	if e.opts.Foreign.ProxyImage == "" { // of a user's manifest
		e.beside = []string{"it is not known who else proxies Services here: without --proxy-image nobody looks"}
		e.log.Warn("nobody looks who else proxies Services: that needs --proxy-image", "row", r)
		return nil, nil
	}
	found, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 && !e.opts.Foreign.Beside {
		return nil, fmt.Errorf("row %s: somebody proxies Services in this cluster, whose work would be taken for the row's: %s; "+
			"remove that, test it as it is (row existing), or test beside it (--beside)", r, cluster.Said(found))
	}
	for node, lines := range found {
		for _, line := range lines {
			e.beside = append(e.beside, "node "+node+": "+line)
		}
	}
	slices.Sort(e.beside)
	return found, nil
}

func (e *Existing) look(ctx context.Context) (map[string][]string, error) {
	services, err := e.installer.Services(ctx)
	if err != nil {
		return nil, err
	}
	return e.agents.Look(ctx, e.opts.Foreign.ProxyImage, services)
}

// checkResidue demands that nobody proxies Services who did not before the dataplane came.
// What others do may change while a row runs: only names are compared.
func (e *Existing) checkResidue(ctx context.Context, d cluster.Dataplane, before map[string][]string, registered []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removePatience)
	defer cancel()
	if d.Manifest != "" {
		if err := e.agents.CheckRegistered(ctx, registered); err != nil {
			return fmt.Errorf("remove %s: %w", d.Name, err)
		}
	}
	if e.opts.Foreign.ProxyImage == "" {
		return nil
	}
	now, err := e.look(ctx)
	if err != nil {
		return fmt.Errorf("remove %s: look for residue: %w: %w", d.Name, cluster.ErrNotRemoved, err)
	}
	left := map[string][]string{}
	for node, lines := range now {
		lines = slices.DeleteFunc(lines, func(line string) bool {
			return slices.ContainsFunc(before[node], func(b string) bool { return who(b) == who(line) })
		})
		if len(lines) > 0 {
			left[node] = lines
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("remove %s: look for residue: %w", d.Name, &cluster.Residue{Left: left})
	}
	return nil
}

// who is whom a line of what is found is about.
func who(line string) string {
	name, _, _ := strings.Cut(line, ": ")
	return name
}

// Beside says who else proxied Services when the last row was installed, a line each: what
// was measured may be theirs.
func (e *Existing) Beside() []string { return e.beside }
