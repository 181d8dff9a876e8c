package run

import (
	"fmt"
	"strings"

	"github.com/plumbline/plumbline/suites/verdict"
)

// sequence is what one client saw, one line per probe: seconds after the
// deletion of the old pod, and the pod that answered or the failure's class.
func sequence(s verdict.Series) string {
	var b strings.Builder
	for _, p := range s.Points {
		what := p.Pod
		if p.Class.Lost() || what == "" {
			what = fmt.Sprintf("-- %s", p.Class)
			if p.Node != "" {
				what += " (load balancer sent it to " + p.Node + ")"
			}
		} else if p.Class.Slow() {
			what += fmt.Sprintf(" (slow: %.2f s)", p.Took)
		}
		fmt.Fprintf(&b, "%+7.1f s  %s\n", p.T, what)
	}
	return b.String()
}
