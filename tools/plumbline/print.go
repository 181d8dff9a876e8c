package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/report/render"
)

// printing is how a table is printed.
type printing struct {
	as   string
	more []string // forms of this command alone
}

// Forms of printing: a table that fits the terminal, the same with all columns, and data.
const (
	asTable = "table"
	asWide  = "wide"
	asJSON  = "json"
	asYAML  = "yaml"

	asMarkdown = "markdown"
	asHTML     = "html"
)

func (p *printing) forms() []string {
	return append([]string{asTable, asWide, asJSON, asYAML}, p.more...)
}

func (p *printing) flag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&p.as, "output", "o", asTable, "`form` of what is printed: "+strings.Join(p.forms(), ", "))
	completeOne(cmd, "output", p.forms()...)
	cmd.PreRunE = func(*cobra.Command, []string) error { // before anything is done
		if !slices.Contains(p.forms(), p.as) {
			return fmt.Errorf("unknown --output %q; known: %s", p.as, strings.Join(p.forms(), ", "))
		}
		return nil
	}
}

func (p *printing) wide() bool { return p.as == asWide }

// data says whether a program reads it.
func (p *printing) data() bool { return p.as == asJSON || p.as == asYAML }

// print writes a value as data, or rows, of which the first is the heading, as a table whose last
// column is cut to the terminal's width.
func (p *printing) print(w io.Writer, value any, rows [][]string) error {
	if p.data() {
		return p.encode(w, value)
	}
	var b bytes.Buffer
	render.Table(&b, rows, func(string) bool { return false })
	text := b.Bytes()
	if !p.wide() {
		text = render.Cut(text, width(w))
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

func (p *printing) encode(w io.Writer, value any) error {
	b, err := json.MarshalIndent(value, "", "  ")
	if err == nil && p.as == asYAML {
		b, err = yaml.JSONToYAML(b)
	} else if err == nil {
		b = append(b, '\n')
	}
	if err != nil {
		return fmt.Errorf("print as %s: %w", p.as, err)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("print as %s: %w", p.as, err)
	}
	return nil
}

// width is that of the terminal that is written to; 0: it is none, and lines may be as long as they
// are.
func width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}
