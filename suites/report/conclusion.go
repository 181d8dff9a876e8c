package report

import (
	"fmt"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

// conclusion is the run's, in a sentence: the first thing to read. It says what ExitCode does.
func conclusion(s Summary) string {
	by := map[Word][]string{}
	for _, sc := range s.Scenarios {
		for _, r := range sc.Rows {
			name := render.Text(r.Name)
			if alone(s) == nil {
				name += " (" + render.Text(sc.Name) + ")"
			}
			word := r.Judge(sc)
			by[word] = append(by[word], name)
		}
	}
	failed, unjudged := append(by[Fail], by[Excess]...), append(by[Invalid], by[Blind]...)
	switch problem := runProblem(s); {
	case len(failed) > 0:
		return "FAIL: " + enumerated(failed) + " lost or answered late more than may be"
	case problem != "":
		return "NOT JUDGED: " + problem
	case len(unjudged) > 0:
		return "NOT JUDGED: " + enumerated(unjudged) + " could not be judged"
	case len(by[Pass]) == 0:
		return fmt.Sprintf("info: %s measured; nothing was held to a promise", render.Plural(len(by[Info]), "row"))
	}
	return "pass: " + enumerated(by[Pass]) + " kept what is promised"
}

// enumerated names the first few.
func enumerated(names []string) string {
	const most = 3
	if len(names) > most {
		return strings.Join(names[:most], "; ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, "; ")
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// lookOf is how a run or a row of a word looks: what is wrong, what is right, what is neither.
func lookOf(w Word) string {
	switch w {
	case Pass:
		return "pass"
	case Fail, Excess:
		return "fail"
	case Invalid, Blind:
		return "unknown"
	}
	return "info"
}

// lookOfRun is that of its conclusion.
func lookOfRun(s Summary) string {
	switch said, _, _ := strings.Cut(conclusion(s), ":"); said {
	case "pass":
		return "pass"
	case "FAIL":
		return "fail"
	case "info":
		return "info"
	}
	return "unknown"
}
