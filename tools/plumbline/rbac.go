package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/row"
	runs "github.com/plumbline/plumbline/suites/run"
	"github.com/plumbline/plumbline/suites/stage"
)

func rbacCommand() *cobra.Command {
	var u stage.Use
	var rows string
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the ClusterRole that an account needs for runs in an existing cluster",
		Long: "The role has what runs with these flags need. It is of the whole cluster: a run's namespaces have its\n" +
			"id in their names. Who makes it must be allowed all of it.",
		Example: "  plumbline rbac --lb=none | kubectl apply -f -\n  kubectl create clusterrolebinding plumbline --clusterrole=plumbline --user=tester",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var err error
			if u.Rows, err = row.Parse(rows); err != nil {
				return err
			}
			role, err := stage.Rights(u)
			if err != nil {
				return err
			}
			text, err := yaml.Marshal(role)
			if err == nil {
				_, err = os.Stdout.Write(text)
			}
			if err != nil {
				return fmt.Errorf("print the role: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&u.LB, "lb", string(runs.OurLB), "as of the runs: ours, cluster or none")
	cmd.Flags().StringVar(&rows, "rows", row.Existing, "as of the runs; manifest:FILE: with what the manifest's objects need")
	cmd.Flags().BoolVar(&u.Conformance, "conformance", false, "for the conformance suite too")
	return cmd
}
