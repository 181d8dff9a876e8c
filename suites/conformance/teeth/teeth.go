// Package teeth shows whether the conformance suite notices what is wrong. Dataplanes
// that are broken on purpose, each in one way (suites/conformance/mutant), must fail
// the behaviours that teeth.yaml names for them, each of these: one that holds tests nothing of what
// is broken. Only these are asked, so that a mutation takes seconds; others may notice it too. A whole
// run (--whole) asks all, and says which do.
//
//	make teeth                                    whose row in TEETH.md is missing, older than what it is about, or of a dirty tree
//	make teeth TEETH='affinity.*|hints.*'         of these
//	bin/teeth --whole --mutations=hints-.*        all behaviours, four minutes for each
package teeth

import (
	"cmp"
	"context"
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

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/conformance"
	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/stage"
)

// mutantLimit is how late a broken dataplane may be; own ones take milliseconds.
const mutantLimit = 5 * time.Second

// Options are what is judged, and where it is written down.
type Options struct {
	Mutations string // those of teeth.yaml that this regular expression matches as a whole
	Table     string // a file, whose rows of those judged are written anew; those that stand are not judged; empty: none
	Whole     bool   // ask for all behaviours, also where the row stands
	Suite     *conformance.Options
}

// judge is a run of Judge in its lab.
type judge struct {
	Options
	ask func(ctx context.Context, dataplane, name string, list []kit.Behaviour) (reasons map[string]string, err error) // bite
	lab *stage.Lab
	all map[string]mutation
	src *sources
}

// Judge breaks a dataplane by one mutation after another, in one lab, and asks the behaviours that are
// to notice. It returns whether all did.
func Judge(ctx context.Context, o Options) (noticed bool, err error) {
	wanted, err := regexp.Compile("^(" + o.Mutations + ")$")
	if err != nil {
		return false, fmt.Errorf("the mutations to judge: %w", err)
	}
	if err := o.Suite.Enter(ctx); err != nil { // first: in a lab, this program begins anew inside
		return false, err
	}
	defer func() { err = errors.Join(err, o.Suite.Stage.Leave(context.WithoutCancel(ctx))) }()
	j := judge{Options: o}
	if j.all, err = declaredMutations(); err != nil {
		return false, err
	}
	root, err := stage.SourceRoot()
	if err != nil {
		return false, err
	}
	if j.src, err = readSources(root); err != nil {
		return false, err
	}
	names, err := j.chosen(wanted)
	if err != nil || len(names) == 0 {
		return err == nil, err
	}
	if j.Table != "" && uncommitted(stage.Commit()) {
		fmt.Println("        the tree has changes that no commit has: rows that are made of it do not stand")
	}
	if err := o.Suite.Place("teeth"); err != nil {
		return false, err
	}
	st, err := stage.Open(ctx, o.Suite.Stage, o.Suite.Logger())
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	var ok bool
	if j.lab, ok = st.(*stage.Lab); !ok {
		return false, errors.New("mutations are of a lab")
	}
	j.ask = j.bite
	return j.run(ctx, names)
}

// chosen are the names of the mutations to judge, in order.
func (j *judge) chosen(wanted *regexp.Regexp) (names []string, err error) {
	family, stands, any := j.Suite.Stage.IPFamily, map[string]bool{}, false
	if j.Table != "" && !j.Whole {
		if stands, err = standing(j.Table, j.src, j.all); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.all)) {
		any = any || name != sound && wanted.MatchString(name)
		switch {
		case name == sound || !wanted.MatchString(name):
		case !j.all[name].shownIn(family):
			fmt.Printf("        %-45s not judged: it takes --ip-family=%s\n", name, cmp.Or(j.all[name].IPFamily, "ipv4"))
		case stands[name]:
			fmt.Printf("        %-45s not judged: its row stands\n", name)
		default:
			names = append(names, name)
		}
	}
	if !any {
		return nil, fmt.Errorf("the mutations to judge: teeth.yaml has none that %q matches; %s is judged with any other", j.Mutations, sound)
	}
	return names, nil
}

// run judges mutations one by one, dataplane by dataplane. What these ask is asked of the sound one first:
// where that fails, a failure says nothing.
func (j *judge) run(ctx context.Context, names []string) (noticed bool, err error) {
	of := map[string][]mutation{}
	for _, name := range names {
		of[j.all[name].dataplane()] = append(of[j.all[name].dataplane()], j.all[name])
	}
	noticed = true
	number := 0
	for _, dataplane := range slices.Sorted(maps.Keys(of)) {
		fine, err := j.judge(ctx, "  0", dataplane, sound, asked(of[dataplane]...))
		switch {
		case err != nil:
			return false, err
		case !fine:
			return false, fmt.Errorf("without a mutation not all pass of %s: nothing is judged of it", dataplane)
		}
		for _, name := range names {
			if j.all[name].dataplane() != dataplane {
				continue
			}
			number++
			fine, err := j.judge(ctx, fmt.Sprintf("%3d/%d", number, len(names)), dataplane, name, asked(j.all[name]))
			if err != nil {
				return false, err
			}
			noticed = noticed && fine
		}
	}
	return noticed, nil
}

// judge asks behaviours with a mutation, and tells whether it was as declared; its row is written anew.
func (j *judge) judge(ctx context.Context, number, dataplane, name string, list []kit.Behaviour) (fine bool, err error) {
	if j.Whole {
		list = behaviours.All()
	}
	began := time.Now()
	reasons, err := j.ask(ctx, dataplane, name, list)
	if err != nil {
		return false, fmt.Errorf("mutation %s of %s: %w", name, dataplane, err)
	}
	if lacks := skipped(j.all[name].Caught, reasons); lacks != "" {
		fmt.Printf("%s %-45s not judged: %s\n", number, name, lacks)
		return true, nil
	}
	caught := failed(reasons)
	wrong, more := compareTeeth(j.all[name], reasons)
	word := map[bool]string{true: "noticed", false: "NOT AS DECLARED"}[wrong == ""]
	fmt.Printf("%s %-45s %s by %d of %d in %s\n%s%s", number, name, word, len(caught), len(list), time.Since(began).Round(time.Second), wrong, more)
	if name == sound || j.Table == "" {
		return wrong == "", nil
	}
	var notes []string
	if wrong != "" {
		notes = append(notes, missed)
	}
	if j.Whole {
		notes = append(notes, whole)
	}
	return wrong == "", note(j.Table, j.src, j.all, name, caught, notes...)
}

// bite asks behaviours with a mutation, and returns why those that do not pass did not.
// Each mutation has probes of its own: what sockets and connection tracking remember of
// connections must not meet those of the next.
func (j *judge) bite(ctx context.Context, dataplane, name string, list []kit.Behaviour) (reasons map[string]string, err error) {
	ctx, cancel := conformance.Limited(ctx, conformance.RunLimit)
	defer cancel()
	r, err := row.Find(dataplane)
	if err != nil {
		return nil, err
	}
	j.Suite.Dataplane = dataplane
	known, err := j.Suite.Declared()
	if err != nil {
		return nil, err
	}
	remove, err := j.lab.InstallMutant(ctx, r, name)
	if err != nil {
		return nil, err
	}
	env, err := j.Suite.OpenEnv(ctx, j.lab, known, "", mutantLimit)
	if err != nil {
		return nil, errors.Join(err, remove(context.WithoutCancel(ctx)))
	}
	reasons = map[string]string{}
	env.Run(ctx, list, func(r kit.Result) {
		// One that fails in either family has noticed.
		if r.Result != kit.ResultPass && !strings.HasPrefix(reasons[r.Behaviour.ID], string(kit.ResultFail)) {
			reasons[r.Behaviour.ID] = string(r.Result) + ": " + r.Reason
		}
	})
	closed := env.Close(context.WithoutCancel(ctx))
	removed := remove(context.WithoutCancel(ctx))
	if errors.Is(removed, cluster.ErrResidue) {
		reasons[behaviours.RemovedLeavesNothing().ID] = string(kit.ResultFail) + ": " + removed.Error()
		removed = nil
	}
	return reasons, errors.Join(closed, awaitGone(ctx, j.lab), removed, context.Cause(ctx))
}

// skipped says why a cluster cannot judge a mutation: of the behaviours that are declared, those that did not
// fail could not be seen. Empty: it can.
func skipped(declared []string, reasons map[string]string) (why string) {
	for _, id := range declared {
		switch reason := reasons[id]; {
		case strings.HasPrefix(reason, string(kit.ResultFail)):
		case strings.HasPrefix(reason, string(kit.ResultSkip)):
			why = id + ": " + reason
		default:
			return ""
		}
	}
	return why
}

// failed are the behaviours that failed, by id.
func failed(reasons map[string]string) (out []string) {
	for _, id := range slices.Sorted(maps.Keys(reasons)) {
		if strings.HasPrefix(reasons[id], string(kit.ResultFail)) {
			out = append(out, id)
		}
	}
	return out
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

// compareTeeth says in what it is wrong that behaviours notice a mutation: which of those declared did
// not fail, what came to no result, and whether nothing works at all. More are those that noticed too.
// Of the sound dataplane, which declares none, each is wrong.
func compareTeeth(m mutation, reasons map[string]string) (wrong, more string) {
	declared := m.Caught
	caught := failed(reasons)
	for _, id := range declared {
		if !slices.Contains(caught, id) {
			wrong += fmt.Sprintf("      did not fail: %s: %s\n", id, cmp.Or(reasons[id], string(kit.ResultPass)))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(reasons)) {
		line := fmt.Sprintf("      not declared: %s: %s\n", id, reasons[id])
		switch {
		case slices.Contains(declared, id):
		case id == m.holds() || len(declared) == 0 && slices.Contains(caught, id) || strings.HasPrefix(reasons[id], string(kit.ResultInconclusive)):
			wrong += line
		case slices.Contains(caught, id):
			more += line
		}
	}
	return wrong, more
}
