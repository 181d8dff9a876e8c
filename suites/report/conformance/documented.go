package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

// known is what is documented of a behaviour: why the dataplane differs, and who
// says so. Without either it is no document.
func known(id string, all []Documented) string {
	i := slices.IndexFunc(all, func(d Documented) bool { return d.Test == id })
	if i < 0 || strings.TrimSpace(all[i].Why) == "" || len(all[i].Source) == 0 {
		return ""
	}
	return render.Joined(" ", all[i].Why, render.Parens(strings.Join(all[i].Source, ", ")))
}

// withKnown says of a failure what is documented of it, and of no other result.
func withKnown(t Test, all []Documented) Test {
	t.Known = ""
	if t.Result == Fail {
		t.Known = known(t.ID, all)
	}
	return t
}

// documented is a test's Known as it is shown.
func documented(t Test) string { return render.Prefixed("documented: ", render.Line(t.Known)) }

// explained is the reason of a test, and what is documented beside it.
func explained(t Test) string { return render.Joined("; ", reason(t), documented(t)) }

// failures says how many of the failures of a complete report are documented, and
// names what is not as documented: each other failure, and each test that passed
// against what is documented.
func failures(r Report) []string {
	var other, passed []string
	n := 0
	for _, t := range r.Tests {
		switch {
		case t.Result == Fail && t.Known == "":
			n++
			other = append(other, render.Line(t.Key()))
		case t.Result == Fail:
			n++
		case t.Result == Pass && known(t.ID, r.Documented) != "":
			passed = append(passed, render.Line(t.Key()))
		}
	}
	var out []string
	if n > 0 {
		out = append(out, fmt.Sprintf("%s, %d documented", render.Plural(n, "failure"), n-len(other)))
	}
	if len(other) > 0 {
		out = append(out, "not documented: "+strings.Join(other, ", "))
	}
	if len(passed) > 0 {
		out = append(out, "documented to fail, but passed: "+strings.Join(passed, ", "))
	}
	return out
}
