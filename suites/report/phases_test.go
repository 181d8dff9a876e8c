package report

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/suites/verdict"
)

// Phases that are drawn are called alike once in a hundred times; those of checks that are in
// step with the changes always.
func TestPhases(t *testing.T) {
	lb := LB{Interval: Duration(2 * time.Second), Fall: 3, Rise: 1}
	row := func(of func() float64) Row {
		var r Row
		for range 8 {
			v := verdict.Rollout{}
			l, up := 4+of(), of()
			v.Observed.Removal, v.Observed.Admission = &l, &up
			r.Rollouts = append(r.Rollouts, v)
		}
		return r
	}
	rng := rand.New(rand.NewPCG(5, 6))
	said := 0
	const rows = 400
	for range rows {
		notes := phaseNotes(row(func() float64 { return 2 * rng.Float64() }), lb)
		if strings.Contains(notes[0], "alike") || strings.Contains(notes[0], "tied") {
			said++
		}
	}
	if said > rows*3*3/100 { // three times one in a hundred, and chance
		t.Errorf("%d of %d rows whose phases are drawn are said to be alike", said, rows)
	}
	notes := phaseNotes(row(func() float64 { return 1.9 + 0.4*rng.Float64() }), lb)
	if len(notes) != 1 || !strings.Contains(notes[0], "U are alike") || !strings.Contains(notes[0], "U' are alike") {
		t.Errorf("phases around the end of an interval: %q", notes)
	}
	u := 0.0
	tied := func() float64 { // U' half an interval behind U, which is drawn
		if u == 0 {
			u = 0.01 + 1.98*rng.Float64()
			return u
		}
		x := math.Mod(u+1+0.1*rng.Float64(), 2)
		u = 0
		return x
	}
	if notes := phaseNotes(row(tied), lb); !strings.Contains(notes[0], "tied") {
		t.Errorf("phases half an interval apart: %q", notes)
	}
	other := lb // checks of servers that are DOWN come at another interval: nothing ties them
	other.Down = Duration(time.Second)
	if notes := phaseNotes(row(tied), other); strings.Contains(notes[0], "tied") {
		t.Errorf("phases of other intervals: %q", notes)
	}
	if notes := phaseNotes(Row{Rollouts: make([]verdict.Rollout, 9)}, lb); notes != nil {
		t.Errorf("without phases: %q", notes)
	}
}
