package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/conformance"
	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	report "github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/row"
)

// conformanceExample is in its help.
const conformanceExample = `  # one of ours, both IP families, in network namespaces
  sudo plumbline conformance --cluster=lab --dataplane=plumb-nftables

  # the behaviours of session affinity alone
  sudo plumbline conformance --cluster=lab --focus=affinity

  # what a cluster of yours has
  plumbline conformance --cluster=existing --kubeconfig=$HOME/.kube/config --dataplane=existing \
      --echo-image=REGISTRY/plumb-echo:TAG --probe-image=REGISTRY/plumb-probe:TAG`

func conformanceCommand() *cobra.Command {
	o := conformance.New()
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Ask a dataplane which Service semantics it keeps",
		Long: "Ask a dataplane, on a cluster made for it or on an existing one, for the behaviours of suites/catalog.yaml.\n" +
			"Exit status: 0 every MUST of those chosen holds, 1 one does not, 2 the harness could not judge.",
		Example: conformanceExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return told(o, fmt.Errorf("unexpected argument %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Verbose, err = cmd.Flags().GetBool("verbose"); err != nil {
				return err
			}
			o.Screen = slog.Default().Handler()
			rep, err := o.Run(cmd.Context())
			if rep.ExitCode == report.ExitNonConformant { // what was seen outweighs what went wrong later
				return errors.Join(verdictError(fmt.Sprintf("%s is %s: %s", o.Dataplane, rep.Conclusion, rep.Why)), err)
			}
			if err == nil && rep.ExitCode != report.ExitConformant {
				err = fmt.Errorf("%s: %s: %s", o.Dataplane, rep.Conclusion, rep.Why)
			}
			return err
		},
	}
	cmd.Flags().AddFlagSet(o.Flags())
	completeStage(cmd)
	completeRows(cmd, "dataplane", row.Known(), false)
	completeOne(cmd, "focus", ids()...)
	completeOne(cmd, "skip", ids()...)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return told(o, flagError(cmd, err)) })
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		if !o.Sonobuoy {
			return
		}
		if err := o.Deliver(errors.New("help was asked for, and no behaviour")); err != nil {
			fmt.Fprintln(os.Stderr, "plumbline:", err)
		}
	})
	return cmd
}

// ids are those of all behaviours.
func ids() (all []string) {
	for _, b := range behaviours.All() {
		all = append(all, b.ID)
	}
	return all
}

// told is an error that Sonobuoy's worker knows of, if one waits for a report.
func told(o *conformance.Options, err error) error {
	if o.Sonobuoy {
		err = errors.Join(err, o.Deliver(err))
	}
	return err
}
