package conformance

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

//go:embed dataplanes.yaml
var dataplanesFile []byte

// Declared is what is known of a dataplane beforehand.
type Declared struct {
	Project      string                 `json:"project"`
	Organization string                 `json:"organization,omitempty"`
	URL          string                 `json:"url,omitempty"`
	Version      string                 `json:"version,omitempty"` // of one that the suite does not install
	Contact      []string               `json:"contact,omitempty"`
	Supported    []kit.Feature          `json:"supported,omitempty"`
	Unsupported  map[kit.Feature]string `json:"unsupported,omitempty"` // and why
	Health       kit.HealthAt           `json:"health,omitempty"`      // where proxy-healthz and proxy-livez are, if not as with kube-proxy
	Flush        []string               `json:"flush,omitempty"`       // commands that remove its rules from a node
	Evidence     []string               `json:"evidence,omitempty"`    // commands that print what a node has for one frontend: kit.CheckEvidence
	Differs      map[string]differs     `json:"differs,omitempty"`     // by behaviour
}

// differs is a behaviour that the dataplane is known not to have.
type differs struct {
	Why    string   `json:"why"`
	Source []string `json:"source"`
}

// Declared finds what is declared of the dataplane: in a file, which is one entry of
// dataplanes.yaml, or there. Of one that nobody knows, nothing is.
func (o *Options) Declared() (Declared, error) { return declaration(o.Dataplane, o.Declaration) }

func declaration(name, file string) (Declared, error) {
	if file == "" {
		all, err := declarations()
		name, _, _ = strings.Cut(name, ":fallback")
		return all[name], err
	}
	return ReadDeclaration(file)
}

// ReadDeclaration reads a file that has the form of one entry of dataplanes.yaml.
func ReadDeclaration(file string) (Declared, error) {
	var d Declared
	text, err := os.ReadFile(file)
	if err != nil {
		return d, fmt.Errorf("read the declaration: %w", err)
	}
	if err = yaml.UnmarshalStrict(text, &d); err == nil {
		err = d.check()
	}
	if err != nil { // on one line, whatever the reader of YAML makes of it
		return d, fmt.Errorf("read the declaration %s: %s", file, strings.Join(strings.Fields(err.Error()), " "))
	}
	return d, nil
}

// check says what is wrong with a declaration.
func (d Declared) check() error {
	if d.Project == "" {
		return errors.New("it names no project")
	}
	known := features()
	for _, f := range slices.Concat(d.Supported, slices.Sorted(maps.Keys(d.Unsupported))) {
		if !slices.Contains(known, f) {
			return fmt.Errorf("unknown feature %q; known: %q", f, known)
		}
	}
	for f, why := range d.Unsupported {
		if strings.TrimSpace(why) == "" || slices.Contains(d.Supported, f) {
			return fmt.Errorf("unsupported feature %s: it must say why, and not be supported too", f)
		}
	}
	if err := d.Health.Check(); err != nil {
		return err
	}
	for _, argv := range words(d.Evidence) {
		if err := kit.CheckEvidence(argv); err != nil {
			return err
		}
	}
	for id, differs := range d.Differs {
		if !slices.Contains(catalogue(), id) || strings.TrimSpace(differs.Why) == "" || len(differs.Source) == 0 {
			return fmt.Errorf("differs, %s: it must be a behaviour of the catalogue, and say why and who says so", id)
		}
	}
	return nil
}

// catalogue has the ids of all behaviours.
func catalogue() (ids []string) {
	for _, b := range behaviours.Catalogue() {
		ids = append(ids, b.ID)
	}
	return ids
}

// features are those that behaviours of the catalogue need.
func features() (out []kit.Feature) {
	for _, b := range behaviours.Catalogue() {
		out = append(out, b.Features...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func declarations() (map[string]Declared, error) {
	var all map[string]Declared
	if err := yaml.UnmarshalStrict(dataplanesFile, &all); err != nil {
		return nil, fmt.Errorf("read dataplanes.yaml: %w", err)
	}
	return all, nil
}

// report is one that has what is declared, in order, and nothing else yet.
func (d Declared) report() conformance.Report {
	r := conformance.Report{Implementation: conformance.Implementation{
		Organization: d.Organization, Project: d.Project, URL: d.URL, Version: d.Version, Contact: d.Contact,
	}}
	for _, f := range features() {
		state, why := conformance.FeatureUnknown, d.Unsupported[f]
		switch {
		case why != "":
			state = conformance.FeatureUnsupported
		case slices.Contains(d.Supported, f):
			state = conformance.FeatureSupported
		}
		r.Features = append(r.Features, conformance.Feature{Name: string(f), State: state, Reason: why})
	}
	for _, id := range slices.Sorted(maps.Keys(d.Differs)) {
		r.Documented = append(r.Documented, conformance.Documented{Test: id, Why: d.Differs[id].Why, Source: d.Differs[id].Source})
	}
	return r
}

// without adds a feature that the dataplane cannot have here.
func (d Declared) without(f kit.Feature, why string) Declared {
	all := map[kit.Feature]string{f: why}
	for other, reason := range d.Unsupported {
		all[other] = reason
	}
	d.Unsupported = all
	return d
}

// words splits commands into words.
func words(commands []string) [][]string {
	var out [][]string
	for _, line := range commands {
		out = append(out, strings.Fields(line))
	}
	return out
}
