package stage

import (
	"errors"
	"fmt"
	"io"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/run"
)

// Use is what a run does in somebody's cluster, as far as its rights depend on it.
type Use struct {
	LB          string // as in Foreign
	Rows        []row.Row
	Conformance bool
}

// core is the name of the group without one.
const core = ""

func rule(group, resources, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: strings.Split(verbs, ",")}
}

// Rights are what an account needs for a run in somebody's cluster. They
// are of the whole cluster: a run's namespaces, which it makes and removes, have its id in
// their names.
func Rights(u Use) (*rbacv1.ClusterRole, error) {
	if err := checkLB(u.LB); err != nil {
		return nil, err
	}
	role := &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "plumbline"},
		Rules: []rbacv1.PolicyRule{
			rule(core, "namespaces", "get,list,create,delete"),
			rule(core, "nodes", "get,list"),
			rule(core, "services", "get,list,create"),
			rule(core, "pods", "get,list,watch,create"),
			rule(core, "pods/status", "patch"), // the workload's readiness gate
			rule(core, "configmaps", "get,create,update"),
			rule(core, "events", "list"), // of a workload that does not become ready
			rule("apps", "deployments", "get,create,patch"),
			rule("discovery.k8s.io", "endpointslices", "get,list,watch"),
			rule("coordination.k8s.io", "leases", "get,create,update"),
		},
	}
	if u.LB == string(run.OurLB) { // with Kubernetes' service controller
		role.Rules = append(role.Rules,
			rule(core, "nodes", "watch"),
			rule(core, "services", "watch,patch"),
			rule(core, "services/status", "patch,update"),
			rule(core, "events", "create,patch,update"),
		)
	}
	if u.Conformance {
		role.Rules = append(role.Rules,
			rule(core, "services", "update,delete"),
			rule(core, "services/status", "update"),
			rule(core, "secrets", "get,create"),
			rule("apps", "daemonsets", "get,create"),
			rule("discovery.k8s.io", "endpointslices", "create,update,delete,deletecollection"),
			rule("networking.k8s.io", "servicecidrs", "list"),
		)
	}
	for _, r := range u.Rows {
		more, err := rightsOf(r)
		if err != nil {
			return nil, err
		}
		role.Rules = append(role.Rules, more...)
	}
	return role, nil
}

// rightsOf are those to install a row's dataplane: for each of its kinds, and what its
// roles allow, which nobody may allow who may not do it.
func rightsOf(r row.Row) ([]rbacv1.PolicyRule, error) {
	if err := checkRow(r); err != nil || r.Dataplane == row.Existing {
		return nil, err
	}
	d, err := dataplane(r)
	if err != nil {
		return nil, err
	}
	text, err := d.Template()
	if err != nil {
		return nil, err
	}
	out := []rbacv1.PolicyRule{ // of the run itself: its witness, and who looks around
		rule(core, "namespaces", "patch"),
		rule(core, "pods", "deletecollection"),
		rule("apps", "daemonsets", "get,create,patch,delete"),
	}
	if d.Manifest != "" { // what it registers is looked for
		for _, gvk := range cluster.Registrations() {
			resource, _ := meta.UnsafeGuessKindToResource(gvk)
			out = append(out, rule(gvk.Group, resource.Resource, "list"))
		}
	}
	for dec := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := dec.Decode(o); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("read the manifest of row %s: %w", r, err)
		case len(o.Object) == 0:
			continue
		}
		gvk := o.GroupVersionKind()
		resource, _ := meta.UnsafeGuessKindToResource(gvk) // as kubectl guesses offline
		out = append(out, rule(gvk.Group, resource.Resource, "get,create,patch,delete"))
		allowed, err := allows(o)
		if err != nil {
			return nil, fmt.Errorf("read the manifest of row %s: %w", r, err)
		}
		out = append(out, allowed...)
	}
}

// allows are the rules of a role, and the right to bind that of a binding.
func allows(o *unstructured.Unstructured) ([]rbacv1.PolicyRule, error) {
	switch o.GetKind() {
	case "ClusterRole", "Role":
		var role rbacv1.ClusterRole // a Role has the same rules
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role)
		return role.Rules, err
	case "ClusterRoleBinding", "RoleBinding":
		kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		bind := rule(rbacv1.GroupName, strings.ToLower(kind)+"s", "bind")
		bind.ResourceNames = []string{name}
		return []rbacv1.PolicyRule{bind}, nil
	}
	return nil, nil
}
