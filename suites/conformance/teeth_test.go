package conformance

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/stage"
)

// The suite has teeth if it notices what is wrong. Dataplanes that are broken on
// purpose, each in one way (tools/plumb-proxy built with the tag mutations), must
// fail exactly the behaviours that teeth.yaml names for them: one more, and a
// behaviour tests something else than it says; one less, and it tests nothing.
//
//	make teeth TEETH='affinity|hints'
var (
	teeth      = flag.String("teeth", "", "judge the suite, with the mutations of teeth.yaml that match this regular `expression`; take --cluster=lab and --test.run=TestTeeth")
	teethTable = flag.String("teeth-table", "", "`file` with the table of mutations and what caught them; rows of those judged are written anew")
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

func TestTeeth(t *testing.T) {
	if *teeth == "" || os.Getenv("PLUMBLINE_CONFORMANCE") != "1" {
		t.Skip("needs a lab (make teeth)")
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exact, err := judgeTeeth(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "teeth:", err)
		status = 2
		t.Fail()
	case !exact:
		status = 1
		t.Fail()
	default:
		status = 0
	}
}

// judgeTeeth runs all behaviours with each mutation, in one lab.
func judgeTeeth(ctx context.Context) (exact bool, err error) {
	wanted, err := regexp.Compile("^(" + *teeth + ")$")
	if err != nil {
		return false, fmt.Errorf("--teeth: %w", err)
	}
	all, err := declaredMutations()
	if err != nil {
		return false, err
	}
	names := []string{sound}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch {
		case name == sound || !wanted.MatchString(name):
		case !all[name].shownIn(opts.stage.IPFamily):
			fmt.Printf("        %-45s not judged: it takes --ip-family=%s\n", name, cmp.Or(all[name].IPFamily, "ipv4"))
		default:
			names = append(names, name)
		}
	}
	if len(names) == 1 && !wanted.MatchString(sound) {
		return true, nil
	}
	log := opts.logger()
	if err := opts.place("teeth"); err != nil {
		return false, err
	}
	st, err := stage.Open(ctx, opts.stage, log)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	lab, ok := st.(*stage.Lab)
	if !ok {
		return false, errors.New("--teeth takes --cluster=lab")
	}
	known, err := declaration(opts.dataplane, opts.declaration)
	if err != nil {
		return false, err
	}
	exact = true
	for i, name := range names {
		began := time.Now()
		caught, reasons, err := bite(ctx, lab, known, name)
		if err != nil {
			return false, fmt.Errorf("mutation %s: %w", name, err)
		}
		wrong := compareTeeth(all[name].Caught, caught, reasons)
		exact = exact && wrong == ""
		word := map[bool]string{true: "exact", false: "NOT EXACT"}[wrong == ""]
		fmt.Printf("%3d/%d %-45s %-9s caught by %d in %s\n%s", i+1, len(names), name, word, len(caught), time.Since(began).Round(time.Second), wrong)
		if name != sound && *teethTable != "" {
			if err := note(*teethTable, all, name, wrong == "", caught); err != nil {
				return false, err
			}
		}
	}
	return exact, nil
}

// bite returns the behaviours that fail with a mutation, and why.
// Each has probes of its own: what sockets and connection tracking remember of
// connections must not meet those of the next.
func bite(ctx context.Context, lab *stage.Lab, known declared, name string) (caught []string, reasons map[string]string, err error) {
	ctx, cancel := limited(ctx, suiteLimit)
	defer cancel()
	remove, err := lab.InstallMutant(ctx, opts.stage.Rows[0], name)
	if err != nil {
		return nil, nil, err
	}
	env, err := openEnv(ctx, lab, known, "", 1, mutantLimit, opts.logger())
	if err != nil {
		return nil, nil, errors.Join(err, remove(context.WithoutCancel(ctx)))
	}
	reasons = map[string]string{}
	env.Run(ctx, registry.All(), func(r kit.Result) {
		if r.Result == kit.ResultFail || r.Result == kit.ResultInconclusive {
			reasons[r.Behaviour.ID] = r.Result + ": " + r.Reason
		}
	})
	closed := env.Close(context.WithoutCancel(ctx))
	removed := remove(context.WithoutCancel(ctx))
	if errors.Is(removed, cluster.ErrResidue) {
		reasons[leavesNothing.ID] = kit.ResultFail + ": " + removed.Error()
		removed = nil
	}
	for id, why := range reasons {
		if strings.HasPrefix(why, kit.ResultFail) {
			caught = append(caught, id)
		}
	}
	slices.Sort(caught)
	return caught, reasons, errors.Join(closed, awaitGone(ctx, lab), removed, cutOff(ctx))
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
