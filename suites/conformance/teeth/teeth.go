// Package teeth shows whether the conformance suite notices what is wrong. Dataplanes
// that are broken on purpose, each in one way (suites/conformance/mutant), must fail
// exactly the behaviours that teeth.yaml names for them: one more, and a behaviour tests
// something else than it says; one less, and it tests nothing.
//
//	make teeth TEETH='affinity|hints'
package teeth

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/conformance"
	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/stage"
)

//go:embed teeth.yaml
var teethFile []byte

// mutation is one way to break a dataplane, and the behaviours that must fail.
type mutation struct {
	Breaks   string   `json:"breaks"`
	IPFamily string   `json:"ipFamily"` // of the lab that shows it: dual, or empty, any
	Caught   []string `json:"caught"`
}

// shownIn tells whether the mutation is judged in a lab of a family: in one of both those
// that no other can show.
func (m mutation) shownIn(family string) bool {
	return m.IPFamily == family || m.IPFamily == "" && family != "dual"
}

// sound is the mutation that breaks nothing: with it nothing may fail.
const sound = "none"

func declaredMutations() (map[string]mutation, error) {
	var all map[string]mutation
	if err := yaml.UnmarshalStrict(teethFile, &all); err != nil {
		return nil, fmt.Errorf("read teeth.yaml: %w", err)
	}
	return all, nil
}

// mutantLimit is how late a broken dataplane may be; own ones take milliseconds.
const mutantLimit = 5 * time.Second

// Options are what is judged, and where it is written down.
type Options struct {
	Mutations string // those of teeth.yaml that this regular expression matches as a whole
	Table     string // a file, whose rows of those judged are written anew; empty: none
	Suite     *conformance.Options
}

// Judge asks for all behaviours with each mutation, in one lab.
func Judge(ctx context.Context, o Options) (exact bool, err error) {
	wanted, err := regexp.Compile("^(" + o.Mutations + ")$")
	if err != nil {
		return false, fmt.Errorf("the mutations to judge: %w", err)
	}
	suite := o.Suite
	if err := suite.Enter(ctx); err != nil { // first: in a lab, this program begins anew inside
		return false, err
	}
	defer func() { err = errors.Join(err, suite.Stage.Leave(context.WithoutCancel(ctx))) }()
	all, err := declaredMutations()
	if err != nil {
		return false, err
	}
	names := []string{sound}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch {
		case name == sound || !wanted.MatchString(name):
		case !all[name].shownIn(suite.Stage.IPFamily):
			fmt.Printf("        %-45s not judged: it takes --ip-family=%s\n", name, cmp.Or(all[name].IPFamily, "ipv4"))
		default:
			names = append(names, name)
		}
	}
	if len(names) == 1 && !wanted.MatchString(sound) {
		return true, nil
	}
	if err := suite.Place("teeth"); err != nil {
		return false, err
	}
	st, err := stage.Open(ctx, suite.Stage, suite.Logger())
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	lab, ok := st.(*stage.Lab)
	if !ok {
		return false, errors.New("mutations are of a lab")
	}
	known, err := suite.Declared()
	if err != nil {
		return false, err
	}
	exact = true
	for i, name := range names {
		began := time.Now()
		caught, reasons, err := bite(ctx, suite, lab, known, name)
		if err != nil {
			return false, fmt.Errorf("mutation %s: %w", name, err)
		}
		wrong := compareTeeth(all[name].Caught, caught, reasons)
		exact = exact && wrong == ""
		word := map[bool]string{true: "exact", false: "NOT EXACT"}[wrong == ""]
		fmt.Printf("%3d/%d %-45s %-9s caught by %d in %s\n%s", i+1, len(names), name, word, len(caught), time.Since(began).Round(time.Second), wrong)
		if name != sound && o.Table != "" {
			if err := note(o.Table, all, name, wrong == "", caught); err != nil {
				return false, err
			}
		}
	}
	return exact, nil
}

// bite returns the behaviours that fail with a mutation, and why.
// Each has probes of its own: what sockets and connection tracking remember of
// connections must not meet those of the next.
func bite(ctx context.Context, suite *conformance.Options, lab *stage.Lab, known conformance.Declared, name string) (caught []string, reasons map[string]string, err error) {
	ctx, cancel := conformance.Limited(ctx, conformance.RunLimit)
	defer cancel()
	remove, err := lab.InstallMutant(ctx, suite.Stage.Rows[0], name)
	if err != nil {
		return nil, nil, err
	}
	env, err := suite.OpenEnv(ctx, lab, known, "", mutantLimit)
	if err != nil {
		return nil, nil, errors.Join(err, remove(context.WithoutCancel(ctx)))
	}
	reasons = map[string]string{}
	env.Run(ctx, behaviours.All(), func(r kit.Result) {
		if r.Result == kit.ResultFail || r.Result == kit.ResultInconclusive {
			reasons[r.Behaviour.ID] = string(r.Result) + ": " + r.Reason
		}
	})
	closed := env.Close(context.WithoutCancel(ctx))
	removed := remove(context.WithoutCancel(ctx))
	if errors.Is(removed, cluster.ErrResidue) {
		reasons[behaviours.RemovedLeavesNothing().ID] = string(kit.ResultFail) + ": " + removed.Error()
		removed = nil
	}
	for id, why := range reasons {
		if strings.HasPrefix(why, string(kit.ResultFail)) {
			caught = append(caught, id)
		}
	}
	slices.Sort(caught)
	return caught, reasons, errors.Join(closed, awaitGone(ctx, lab), removed, context.Cause(ctx))
}

// awaitGone waits until the probes of a mutation are gone.
func awaitGone(ctx context.Context, lab *stage.Lab) error {
	client, err := kubernetes.NewForConfig(lab.Cluster().RESTConfig())
	if err != nil {
		return fmt.Errorf("make API client: %w", err)
	}
	namespace := kit.Namespace(lab.Run())
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return fmt.Errorf("wait until namespace %s is gone: %w", namespace, err)
	}
	return nil
}

// compareTeeth says in what the behaviours that failed are not those declared; empty:
// in nothing. One that is inconclusive caught nothing, and should not be so.
func compareTeeth(declared, caught []string, reasons map[string]string) string {
	var out strings.Builder
	for _, id := range declared {
		if !slices.Contains(caught, id) {
			fmt.Fprintf(&out, "      did not fail: %s\n", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(reasons)) {
		if !slices.Contains(declared, id) || !slices.Contains(caught, id) {
			fmt.Fprintf(&out, "      not declared: %s: %s\n", id, reasons[id])
		}
	}
	return out.String()
}
