// Package call is how the project's smaller programs read their command lines: help and version go
// to standard output, and what is wrong is one line on standard error.
package call

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/plumbline/plumbline/ci/version"
)

// The exit status.
const (
	OK     = 0
	Failed = 1 // it could not be done
	Bad    = 2 // nothing was done: flags or what they name are not right
)

// said is what was asked for instead of the program's work.
type said string

func (s said) Error() string { return "asked for: " + string(s) }

// Flags are a program's, or its command's, without any yet.
func Flags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// Parse reads flags, and --version beside them. Its error, of which Exit knows what to do with it,
// may be what was asked for: the usage with all flags, or the version.
func Parse(fs *flag.FlagSet, usage string, args []string) error {
	program, _, isCommand := strings.Cut(fs.Name(), " ")
	asked := false
	if !isCommand {
		fs.BoolVar(&asked, "version", false, "print the version and exit")
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return said(help(fs, usage))
	case err != nil:
		return fmt.Errorf("%w; see %s --help", err, fs.Name())
	case asked:
		return said(program + " " + version.String() + "\n")
	}
	return nil
}

// help is the text of --help.
func help(fs *flag.FlagSet, usage string) string {
	var text strings.Builder
	fs.SetOutput(&text)
	defer fs.SetOutput(io.Discard)
	fs.PrintDefaults()
	return "usage: " + strings.TrimSpace(usage) + "\n\nFlags:\n" + text.String()
}

// Exit says what came of a command line, and is the exit status for it.
func Exit(program string, err error, stdout, stderr io.Writer) int {
	var asked said
	switch {
	case err == nil:
		return OK
	case errors.As(err, &asked):
		if _, err := io.WriteString(stdout, string(asked)); err != nil {
			fmt.Fprintf(stderr, "%s: print: %v\n", program, err)
			return Failed
		}
		return OK
	}
	fmt.Fprintf(stderr, "%s: %s\n", program, strings.ReplaceAll(err.Error(), "\n", "; "))
	return Bad
}
