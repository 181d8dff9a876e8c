package conformance

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/report/render"
)

// command is the line that does it again, from the flags that are not as by default.
// Files of this host go by their last names, and its results elsewhere.
func (o *Options) command() string {
	args := []string{"plumbline", "conformance", "--cluster=" + o.Stage.Cluster, "--dataplane=" + lastName(o.Dataplane), fmt.Sprintf("--seed=%d", o.Seed)}
	if ids := o.chosenElsewhere(); ids != "" {
		args = append(args, "--focus="+ids)
	}
	o.flags.VisitAll(func(f *pflag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "dataplane", "cluster", "seed", "results", "sonobuoy":
			return
		case "kubeconfig", "declaration":
			value = filepath.Base(value)
		}
		if f.Value.String() != f.DefValue {
			args = append(args, "--"+f.Name+"="+value)
		}
	})
	for i, a := range args {
		args[i] = render.Quoted(a)
	}
	return strings.Join(args, " ")
}

// chosenElsewhere is an expression for the behaviours that no flag of ours has chosen;
// empty if a flag has, or nobody.
func (o *Options) chosenElsewhere() string {
	if o.focus+o.skip+o.labelFilter != "" || len(o.Behaviours) == len(behaviours.All()) {
		return ""
	}
	var ids []string
	for _, b := range o.Behaviours {
		ids = append(ids, b.ID)
	}
	return "^(" + strings.Join(ids, "|") + ")$"
}

// lastName of a dataplane is without the folder of its manifest.
func lastName(dataplane string) string {
	if file, ok := strings.CutPrefix(dataplane, "manifest:"); ok {
		return "manifest:" + filepath.Base(file)
	}
	return dataplane
}
