package verdict

import (
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

// moments are when the harness's own host had trouble.
type moments struct {
	known bool // somebody looked
	sicks []struct{ from, to int64 }
}

// around is how far trouble of the control stream reaches: its attempts are 50 ms apart.
const around = 100 * time.Millisecond

// hostMoments are those in which control attempts failed or were slow.
func hostMoments(control []record.Attempt, s Settings, classify classifier) moments {
	m := moments{known: len(control) > 0}
	for _, a := range control {
		if c := classify(a, s.Timeout); c.Slow() || !c.Success() {
			m.sicks = append(m.sicks, struct{ from, to int64 }{a.Intended - around.Nanoseconds(), a.End + around.Nanoseconds()})
		}
	}
	return m
}

// sick reports trouble in any of the time between.
func (m moments) sick(from, to int64) bool {
	for _, s := range m.sicks {
		if from <= s.to && to >= s.from {
			return true
		}
	}
	return false
}

// sickDuring reports trouble while an attempt was under way and its client waited.
func (m moments) sickDuring(o outcome, s Settings) bool {
	return m.sick(o.Start, o.waited(s))
}

// sound: nothing of the harness speaks against what became of this attempt. It was sent on
// time, the load balancer had room, and if a stall may have made it, the control stream had no
// trouble meanwhile.
func (o outcome) sound(m moments, s Settings) bool {
	return m.known && o.Late() <= s.Limits.LateP99.Nanoseconds() && (o.conn == nil || !o.conn.Full) && o.cause != CauseHarness && (!o.stallable() || !m.sickDuring(o, s))
}
