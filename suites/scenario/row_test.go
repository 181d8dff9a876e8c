package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/plumbline/plumbline/fixtures/cluster"
)

// refusing is a stage on which no dataplane can be installed.
type refusing struct {
	Stage
	err error
}

func (r refusing) Install(context.Context, Row) (string, func(context.Context) error, error) {
	return "", nil, r.err
}

// The rows after one that failed are run if nothing of it is left, whosever fault it is that something is.
func TestRowThatWasNotInstalled(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		clean bool
	}{
		"removed again":          {errors.New("no"), true},
		"unsupported":            {cluster.Unsupported{Why: "no"}, true},
		"not removed":            {fmt.Errorf("no: %w", cluster.ErrNotRemoved), false},
		"removed, and left some": {fmt.Errorf("no: %w", cluster.ErrResidue), false},
	} {
		r := &runner{stage: refusing{err: tc.err}, log: slog.New(slog.DiscardHandler)}
		if _, clean := r.row(t.Context(), 0, Row{Dataplane: "plumb-nftables"}); clean != tc.clean {
			t.Errorf("%s: clean is %v", name, clean)
		}
	}
}
