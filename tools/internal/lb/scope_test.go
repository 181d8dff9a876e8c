package lb

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/tools/internal/call"
)

// The same cluster by another address is the same; another authority, server behind it, path,
// namespace, class, name or kind of load balancers is another scope.
func TestScopeOf(t *testing.T) {
	ca := func(host, ca string) *rest.Config {
		return &rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(ca)}}
	}
	scopes := []string{}
	for _, tc := range []struct {
		config *rest.Config
		o      options
	}{
		{ca("https://a", "A"), options{}}, {ca("https://a", "B"), options{}}, {ca("http://a", ""), options{}}, {ca("http://b", ""), options{}},
		{ca("https://a/k8s/clusters/b", "A"), options{}}, {&rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("A"), ServerName: "b"}}, options{}},
		{ca("https://a", "A"), options{namespace: "n"}}, {ca("https://a", "A"), options{class: "n"}},
		{ca("https://a", "A"), options{cluster: "n"}}, {ca("https://a", "A"), options{instances: "n"}},
	} {
		scope, err := scopeOf(tc.config, tc.o)
		if err != nil || slices.Contains(scopes, scope) {
			t.Errorf("%s again (%v)", scope, err)
		}
		scopes = append(scopes, scope)
	}
	if same, err := scopeOf(ca("https://elsewhere", "A"), options{}); err != nil || same != scopes[0] {
		t.Errorf("by another address %s, not %s (%v)", same, scopes[0], err)
	}
}

// A state directory is of the first that has load balancers in it.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		scope  string
		make   bool
		claims bool
	}{{"a", false, true}, {"b", false, true}, {"b", true, true}, {"a", false, false}, {"b", false, true}} {
		if tc.make {
			if err := os.Mkdir(filepath.Join(dir, instance.NamePrefix+"1"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := claim(dir, tc.scope); (err == nil) != tc.claims || err != nil && !strings.Contains(err.Error(), "choose another --cluster-name (and") {
			t.Errorf("%s: %v", tc.scope, err)
		}
	}
}

// A plumb-lb for another namespace, or for another cluster, leaves the load balancers of the
// first alone, which go on without theirs.
func TestLoadBalancersOfOthers(t *testing.T) {
	f := newForeign(t)
	master, ip := f.served()
	elsewhere := filepath.Join(t.TempDir(), "config")
	f.check(os.WriteFile(elsewhere, api.Kubeconfig("http://127.0.0.1:1"), 0o600))
	for _, other := range [][]string{{"--namespace", "theirs"}, {"--namespace", ""}, {"--lb-class", "example.com/x"}, {"--kubeconfig", elsewhere}} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // of one that serves
		cmd := exec.CommandContext(ctx, os.Args[0], append(slices.Clone(f.args), other...)...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		said, err := cmd.CombinedOutput()
		cancel()
		exit, exited := errors.AsType[*exec.ExitError](err)
		if !exited || exit.ExitCode() != call.Bad || !strings.Contains(string(said), "has load balancers of another cluster, namespace or class") {
			t.Errorf("%q: %v, says %s", other, err, said)
		}
		f.outlives(master, ip)
	}
	f.start()
	f.await("not found again", func() bool { return f.watchedBy() })
}
