package run

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/verdict"
)

// awaitedStage counts how often the host was given time to become quiet.
type awaitedStage struct {
	Stage
	awaited int
	err     error
}

func (s *awaitedStage) AwaitQuiet(context.Context) error {
	s.awaited++
	return s.err
}

// A rollout that the host spoiled for one stream counts for none, and is repeated on a host that had time
// to become quiet; a row is given up after as many as are wanted and three.
func TestRepeats(t *testing.T) {
	for name, tc := range map[string]struct {
		tries                    string // of each rollout: v valid, 1 or 2 the stream it is invalid for, e an error
		wanted                   int
		awaitErr                 error
		counted, thrown, awaited int
		err                      string
	}{
		"all count":            {tries: "vv", wanted: 2, counted: 2},
		"one of them does not": {tries: "v1v", wanted: 2, counted: 2, thrown: 1, awaited: 1},
		"for the other stream": {tries: "2v", wanted: 1, counted: 1, thrown: 1, awaited: 1},
		"none does":            {tries: "1111v", wanted: 1, thrown: 4, awaited: 3, err: "4 rollouts in all were invalid, the last: late"},
		"as many and two":      {tries: "1v111v", wanted: 2, counted: 2, thrown: 4, awaited: 4},
		"it breaks off":        {tries: "ve", wanted: 2, counted: 1, thrown: 1, err: "rollout 2: broken"},
		"the wait is ended":    {tries: "1v", wanted: 1, thrown: 1, awaited: 1, awaitErr: context.Canceled, err: context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			st := &awaitedStage{err: tc.awaitErr}
			p := &play{runner: &runner{stage: st, Run: scenario.Run{}, log: discard}, params: scenario.Params{Rollouts: tc.wanted}}
			rows := make([]report.Row, 2)
			err := p.rollouts(t.Context(), rows, func(n int) ([]verdict.Rollout, error) { return tried(tc.tries[n-1], n) })
			if text := textOf(err); text != tc.err && (tc.err == "" || !strings.Contains(text, tc.err)) {
				t.Errorf("error %q, want %q", text, tc.err)
			}
			if st.awaited != tc.awaited {
				t.Errorf("the host was given time %d times, want %d", st.awaited, tc.awaited)
			}
			for i, row := range rows {
				if len(row.Rollouts) != tc.counted || len(row.Invalid) != tc.thrown {
					t.Errorf("stream %d: %d count and %d do not, want %d and %d", i+1, len(row.Rollouts), len(row.Invalid), tc.counted, tc.thrown)
				}
			}
		})
	}
}

func tried(kind byte, n int) ([]verdict.Rollout, error) {
	all := []verdict.Rollout{{Number: n, Valid: true}, {Number: n, Valid: true}}
	switch kind {
	case '1', '2':
		v := &all[kind-'1']
		v.Valid, v.Reasons = false, []string{"late"}
	case 'e':
		return all, errors.New("broken")
	}
	return all, nil
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
