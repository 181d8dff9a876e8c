package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plumbline/plumbline/suites/nearest"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/row"
)

// completeOne offers words for a flag whose value is one of them.
func completeOne(cmd *cobra.Command, flag string, words ...string) {
	register(cmd, flag, func(typed string) ([]string, cobra.ShellCompDirective) {
		return beginning(words, typed), cobra.ShellCompDirectiveNoFileComp
	})
}

// completeList offers words for a flag whose value is a list of them that commas separate.
func completeList(cmd *cobra.Command, flag string, words ...string) {
	register(cmd, flag, func(typed string) ([]string, cobra.ShellCompDirective) {
		return offered(words, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// completeRows offers dataplanes, one or a list of them, or a word that stands alone; of a manifest's
// the file is named as any other.
func completeRows(cmd *cobra.Command, flag string, words []string, list bool, alone ...string) {
	register(cmd, flag, func(typed string) ([]string, cobra.ShellCompDirective) {
		if strings.Contains(typed, row.Manifest+":") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		if list && strings.Contains(typed, ",") {
			return offered(words, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return beginning(append(slices.Clone(words), alone...), typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

func register(cmd *cobra.Command, flag string, f func(typed string) ([]string, cobra.ShellCompDirective)) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f(typed)
	})
	if err != nil {
		panic(err) // there is no such flag
	}
}

// beginning are the words that begin as what was typed.
func beginning(words []string, typed string) []string {
	var out []string
	for _, w := range words {
		if w = strings.TrimSuffix(w, "FILE"); strings.HasPrefix(w, typed) {
			out = append(out, w)
		}
	}
	return out
}

// offered are what a list that was begun may go on with.
func offered(words []string, typed string) []string {
	begun := ""
	if i := strings.LastIndex(typed, ","); i >= 0 {
		begun = typed[:i+1]
	}
	named := strings.Split(begun, ",")
	var out []string
	for _, w := range words {
		w = strings.TrimSuffix(w, "FILE")
		if !slices.Contains(named, w) && strings.HasPrefix(begun+w, typed) {
			out = append(out, begun+w)
		}
	}
	return out
}

// completeStage offers what stage.Options' flags take.
func completeStage(cmd *cobra.Command) {
	completeOne(cmd, "cluster", "kind", "lab", "existing")
	completeOne(cmd, "ip-family", "ipv4", "ipv6", "dual")
	completeOne(cmd, "control-plane", "model", "real")
	completeOne(cmd, "lb", "ours", "cluster", "none")
}

// completeResults offers the folders of results that hold a report, the newest first, beside files,
// for so many arguments; 0: for any number.
func completeResults(most int, files ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, named []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(named) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, f := range files {
			found, err := filepath.Glob(filepath.Join("results", "*", f))
			if err != nil {
				continue // of a pattern that is none
			}
			for _, path := range found {
				if dir := filepath.Dir(path); strings.HasPrefix(dir, typed) && !slices.Contains(named, dir) {
					out = append(out, dir)
				}
			}
		}
		slices.Sort(out)
		slices.Reverse(out)
		return out, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveKeepOrder
	}
}

// Files that a folder with a report holds.
const (
	disruptionReport  = report.SummaryFile
	conformanceReport = conformance.JSONFile
)

// flagError says what a flag that is not known may have been meant for.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	hint := nearest.Hint(unknown.GetSpecifiedName(), known)
	if hint == "" {
		return err
	}
	return errors.New(err.Error() + strings.Replace(hint, "mean ", "mean --", 1))
}

// asksFor makes a command that only has others under it refuse what none of them is called.
func asksFor(cmd *cobra.Command, under ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(under...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var known []string
		for _, c := range under {
			known = append(known, c.Name())
		}
		hint := nearest.Hint(args[0], known)
		if hint == "" {
			hint = "; known: " + strings.Join(known, ", ")
		}
		return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
	}
	return cmd
}
