package stage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/plumbline/plumbline/suites/row"
)

// may tells whether rules allow something.
func may(rules []rbacv1.PolicyRule, group, resource, verb, name string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb) &&
			(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, name))
	})
}

// What a run does not need it is not given: nothing is allowed as a whole, and what only
// some runs need only they get. That it is enough is seen on a real cluster (make e2e,
// label existing).
func TestRightsAreNoMoreThanAsked(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "m.yaml")
	check(t, os.WriteFile(manifest, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: other}
rules: [{apiGroups: [example.com], resources: [things], verbs: [watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: other}
roleRef: {kind: ClusterRole, name: other}
---
apiVersion: example.com/v1
kind: Policy
metadata: {name: p}
`), 0o600))
	rights := func(u Use) []rbacv1.PolicyRule {
		role, err := Rights(u)
		check(t, err)
		for _, r := range role.Rules {
			if all := slices.Concat(r.APIGroups, r.Resources, r.Verbs); slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "*") }) {
				t.Errorf("%+v: %+v", u, r)
			}
		}
		return role.Rules
	}
	rows := func(text string) []row.Row {
		list, err := row.Parse(text)
		check(t, err)
		return list
	}
	kinds := map[string][]rbacv1.PolicyRule{
		"plain":       rights(Use{LB: "none", Rows: rows("existing")}),
		"ours":        rights(Use{LB: "ours"}),
		"conformance": rights(Use{LB: "cluster", Conformance: true}),
		"own":         rights(Use{LB: "none", Rows: rows("plumb-nftables:fallback")}),
		"manifest":    rights(Use{LB: "none", Rows: rows("manifest:" + manifest)}),
	}
	for _, w := range []struct {
		group, resource, verb, name string
		who                         string
	}{
		{"", "namespaces", "create", "", "plain ours conformance own manifest"},
		{"", "nodes", "patch", "", ""},
		{"", "secrets", "get", "", "conformance"},
		{"", "services/status", "patch", "", "ours"},
		{"", "serviceaccounts", "create", "", "own"},
		{"rbac.authorization.k8s.io", "clusterroles", "create", "", "own manifest"},
		{"rbac.authorization.k8s.io", "clusterroles", "bind", "plumb-proxy", "own"},
		{"rbac.authorization.k8s.io", "clusterroles", "bind", "other", "manifest"},
		{"rbac.authorization.k8s.io", "clusterroles", "bind", "cluster-admin", ""},
		{"networking.k8s.io", "servicecidrs", "watch", "", "own"}, // the agent's own role says so
		{"example.com", "things", "watch", "", "manifest"},
		{"example.com", "policies", "create", "", "manifest"},
	} {
		for kind, rules := range kinds {
			if got, want := may(rules, w.group, w.resource, w.verb, w.name), slices.Contains(strings.Fields(w.who), kind); got != want {
				t.Errorf("%s: %s %s/%s %s: %t, want %t", kind, w.verb, w.group, w.resource, w.name, got, want)
			}
		}
	}
}

func TestRightsRefuse(t *testing.T) {
	for name, u := range map[string]Use{
		"no such LB":  {LB: "theirs"},
		"kube-proxy":  {LB: "none", Rows: []row.Row{{Dataplane: "kube-proxy", Mode: "nftables"}}},
		"no manifest": {LB: "none", Rows: []row.Row{{Dataplane: row.Manifest, Mode: "/does/not/exist"}}},
	} {
		if role, err := Rights(u); err == nil {
			t.Errorf("%s: %v", name, role)
		}
	}
}
