package run

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

var discard = slog.New(slog.DiscardHandler)

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

func (beset) UsedMiB() int             { return 0 }
func (beset) Cluster() cluster.Cluster { return nil }
func (beset) LB() LB                   { return stillLB{} }

// stillLB lives.
type stillLB struct{ LB }

func (stillLB) Died() <-chan struct{} { return nil }

func (beset) Beside() []string { return []string{"node n1: kube-proxy: table ip kube-proxy"} }

// withPlay has a scenario of nothing.
func withPlay(r *runner) *runner {
	r.plays = []*play{{runner: r}}
	return r
}

// A row says beside whom it was measured, also if it could not be measured.
func TestRowSaysBesideWhom(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no API") })
	r := withPlay(&runner{stage: beset{}, client: client, log: discard})
	left := r.row(t.Context(), 0, row.Row{Dataplane: "plumb-nftables"})
	out := r.plays[0].sum.Rows[0]
	if left != nil || out.Error == "" || !slices.Equal(out.Beside, beset{}.Beside()) {
		t.Errorf("left %v, error %q, beside %q", left, out.Error, out.Beside)
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
		r := withPlay(&runner{stage: refusing{err: tc.err}, log: discard})
		if err := r.row(t.Context(), 0, row.Row{Dataplane: "plumb-nftables"}); (err == nil) != tc.clean {
			t.Errorf("%s: left %v", name, err)
		}
	}
}

// The report holds a row to what it claims: else a loss would be no failure.
func TestRowIsHeldToItsClaim(t *testing.T) {
	r := withPlay(&runner{stage: refusing{err: errors.New("no")}, log: discard})
	declared := row.Row{Dataplane: row.Existing, Declared: true}
	for _, spec := range append(row.Default(), row.Row{Dataplane: row.Existing}, declared) {
		if err := r.row(t.Context(), 0, spec); err != nil {
			t.Fatal(err)
		}
		rows := r.plays[0].sum.Rows
		out := rows[len(rows)-1]
		want := spec == declared || spec.Own() && spec.Terminating == "fallback"
		if out.Judged != want || out.Own != spec.Own() || out.Name != spec.String() {
			t.Errorf("%s: judged %t, want %t: %+v", spec, out.Judged, want, out)
		}
	}
}
