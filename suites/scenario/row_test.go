package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/row"
)

// refusing is a stage on which no dataplane can be installed.
type refusing struct {
	Stage
	err error
}

func (r refusing) Install(context.Context, row.Row) (string, func(context.Context) error, error) {
	return "", nil, r.err
}

// beset is a stage where somebody else proxies Services.
type beset struct{ Stage }

func (beset) Install(context.Context, row.Row) (string, func(context.Context) error, error) {
	return "v1", func(context.Context) error { return nil }, nil
}

func (beset) LB() LB { return stillLB{} }

// stillLB lives.
type stillLB struct{ LB }

func (stillLB) Died() <-chan struct{} { return nil }

func (beset) Beside() []string { return []string{"node n1: kube-proxy: table ip kube-proxy"} }

// A row says beside whom it was measured, also if it could not be measured.
func TestRowSaysBesideWhom(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no API") })
	r := &runner{stage: beset{}, client: client, log: slog.New(slog.DiscardHandler)}
	rows, clean := r.row(t.Context(), 0, row.Row{Dataplane: "plumb-nftables"})
	out := rows[0]
	if !clean || out.Error == "" || !slices.Equal(out.Beside, beset{}.Beside()) {
		t.Errorf("clean %v, error %q, beside %q", clean, out.Error, out.Beside)
	}
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
		if _, clean := r.row(t.Context(), 0, row.Row{Dataplane: "plumb-nftables"}); clean != tc.clean {
			t.Errorf("%s: clean is %v", name, clean)
		}
	}
}

// The report holds a row to what it claims: else a loss would be no failure.
func TestRowIsHeldToItsClaim(t *testing.T) {
	r := &runner{stage: refusing{err: errors.New("no")}, log: slog.New(slog.DiscardHandler)}
	declared := row.Row{Dataplane: row.Existing, Declared: true}
	for _, spec := range append(row.Default(), row.Row{Dataplane: row.Existing}, declared) {
		rows, _ := r.row(t.Context(), 0, spec)
		out := rows[0]
		want := spec == declared || spec.Own() && spec.Terminating == "fallback"
		if out.Judged != want || out.Own != spec.Own() || out.Name != spec.String() {
			t.Errorf("%s: judged %t, want %t: %+v", spec, out.Judged, want, out)
		}
	}
}
