package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/disruption"
	"github.com/plumbline/plumbline/suites/row"
)

func listCommand() *cobra.Command {
	return asksFor(&cobra.Command{Use: "list", Short: "List what can be asked for by name", Example: "  plumbline list rows"},
		listOf("scenarios", "What is done to a cluster under load, and what is promised", "run --scenario", listedScenarios),
		listOf("rows", "Dataplanes and their modes", "run --rows", listedRows),
		listOf("profiles", "How the load balancer behaves", "run --profile", listedProfiles),
		listOf("behaviours", "What the conformance suite asks a dataplane for", "conformance --focus", listedBehaviours),
	)
}

// listed is something that can be asked for by its name.
type listed struct {
	Name  string `json:"name"`
	Says  string `json:"says"`            // one sentence
	More  string `json:"more,omitempty"`  // what is promised, or for whom it is
	Level string `json:"level,omitempty"` // of a behaviour: MUST, SHOULD, MAY
	Group string `json:"profile,omitempty"`
}

func listOf(what, short, use string, list func() []listed) *cobra.Command {
	var p printing
	cmd := &cobra.Command{
		Use: what, Short: short, Args: cobra.NoArgs,
		Long:    short + ", by the names that plumbline " + use + " takes.",
		Example: "  plumbline list " + what + "\n  plumbline list " + what + " -o json",
		RunE: func(*cobra.Command, []string) error {
			all := list()
			rows := [][]string{{"NAME", "SAYS"}}
			for _, l := range all {
				line := []string{l.Name, l.Says}
				if l.Level != "" {
					line[1] = l.Level + " " + l.Says
				}
				if p.wide() {
					line = append(line, l.Group+l.More)
				}
				rows = append(rows, line)
			}
			if p.wide() {
				rows[0] = append(rows[0], "MORE")
			}
			return p.print(os.Stdout, all, rows)
		},
	}
	p.flag(cmd)
	return cmd
}

func listedScenarios() (all []listed) {
	for _, e := range disruption.All() {
		all = append(all, listed{Name: e.Name, Says: e.Title, More: e.Says})
	}
	return all
}

func listedRows() (all []listed) {
	for _, r := range row.Each() {
		name := r.Name()
		if short, err := row.Find(r.Dataplane); err == nil && short == r && r.Own() {
			all = append(all, listed{Name: r.Dataplane, Says: "the same as " + name})
		}
		all = append(all, listed{Name: name, Says: r.Says()})
	}
	return append(all,
		listed{Name: row.Manifest + ":FILE", Says: "what the objects in a file of yours install"},
		listed{Name: row.All, Says: "alone: the default matrix, " + row.Names(row.Default())})
}

func listedProfiles() (all []listed) {
	for _, name := range profile.List() {
		p, err := profile.Parse(name)
		if err != nil {
			panic(err) // it is in the list
		}
		all = append(all, listed{Name: name, Says: p.String()})
	}
	return all
}

func listedBehaviours() (all []listed) {
	for _, b := range behaviours.All() {
		all = append(all, listed{Name: b.ID, Says: b.Says, Level: string(b.Level), Group: string(b.Profile)})
	}
	return all
}
