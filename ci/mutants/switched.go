package main

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
)

// One program has all mutants of a package, where that can be: to compile and link it takes a
// hundred times as long as to run the tests of a pure package. Each mutant is a copy of its
// function under a name of its own, and the function begins by asking which one it is to be.

// numberVar is the environment variable with the number of the mutant; without it there is none.
const numberVar = "PLUMBLINE_MUTANT_NUMBER"

const numberFile = `package %s

import (
	"os"
	"strconv"
)

var mutantNumber = func() int { n, _ := strconv.Atoi(os.Getenv(%q)); return n }()
`

// edit is a piece of a text, by offsets, that is replaced.
type edit struct {
	from, to int
	with     string
}

func apply(text string, edits ...edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(text[at:e.from])
		b.WriteString(e.with)
		at = e.to
	}
	b.WriteString(text[at:])
	return b.String()
}

// switched is the overlay, texts by path, of all mutants that can be in one program.
func (s *source) switched(all []mutant) map[string]string {
	first := s.Fset.Position(s.Syntax[0].Pos()).Filename
	out := map[string]string{filepath.Join(filepath.Dir(first), "zmutants.go"): fmt.Sprintf(numberFile, s.Name, numberVar)}
	byFile := map[string][]mutant{}
	for _, m := range all {
		if m.arguments != nil {
			byFile[m.path] = append(byFile[m.path], m)
		}
	}
	for path, mutants := range byFile {
		cases, copies := map[*ast.FuncDecl]string{}, ""
		var edits []edit
		for _, m := range mutants {
			name := fmt.Sprintf("%s__%d", m.function.Name.Name, m.number)
			begin, end := s.offset(m.function.Pos()), s.offset(m.function.End())
			at := s.offset(m.function.Name.End())
			whole := apply(m.was, m.edit, edit{at, at, fmt.Sprintf("__%d", m.number)})
			copies += "\n" + whole[begin:end+len(whole)-len(m.was)] + "\n"
			cases[m.function] += fmt.Sprintf(" case %d: %s", m.number, m.call(name))
		}
		for function, text := range cases {
			at := s.offset(function.Body.Lbrace) + 1
			edits = append(edits, edit{at, at, " switch mutantNumber {" + text + " };"})
		}
		out[path] = apply(mutants[0].was, edits...) + copies
	}
	return out
}

// call is the statement with which a function goes over to a mutant of itself.
func (m mutant) call(name string) string {
	text := name + "(" + strings.Join(m.arguments, ", ") + ")"
	if m.function.Recv != nil {
		text = m.function.Recv.List[0].Names[0].Name + "." + text
	}
	if m.function.Type.Results == nil {
		return text + "; return;"
	}
	return "return " + text + ";"
}

// arguments are the parameters of a function as it gives them on, nil if it cannot since one has
// no name.
func arguments(d *ast.FuncDecl) []string {
	out := []string{}
	if d.Recv != nil && (len(d.Recv.List[0].Names) == 0 || d.Recv.List[0].Names[0].Name == "_") || d.Type.TypeParams != nil || d.Name.Name == "init" || d.Name.Name == "main" {
		return nil
	}
	for _, p := range d.Type.Params.List {
		if len(p.Names) == 0 {
			return nil
		}
		for _, name := range p.Names {
			text := name.Name
			if text == "_" {
				return nil
			}
			if _, variadic := p.Type.(*ast.Ellipsis); variadic {
				text += "..."
			}
			out = append(out, text)
		}
	}
	return out
}
