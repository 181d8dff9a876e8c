package lb

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/plumbline/plumbline/lbprovider/instance"
)

// scopeFile, in the state directory, says whose load balancers are in it.
const scopeFile = "scope"

// scopeOf names what a provider serves, and how: of a cluster the Services of a namespace and
// a class. What it does not serve it must not take for what no Service wants any more. A
// cluster is known by its authority's certificates with the server's name and path, by which
// several behind one authority are told apart, or else by its API's address.
func scopeOf(config *rest.Config, o options) (string, error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return "", fmt.Errorf("read the kubeconfig %s: %s", o.kubeconfig, oneLine(err))
	}
	at, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig %s: %s", o.kubeconfig, oneLine(err))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", cmp.Or(string(config.CAData), at.Host), config.ServerName, at.Path))
	return strings.Join([]string{hex.EncodeToString(sum[:6]), o.namespace, o.class, o.cluster, o.instances}, "/"), nil
}

// claim makes a state directory, of which the caller has the lock, one of this scope. One
// with load balancers of another is refused.
func claim(dir, scope string) error {
	path := filepath.Join(dir, scopeFile)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look whose load balancers are in the state directory: %w", err)
	}
	has := strings.TrimSpace(string(text))
	if has == scope {
		return nil
	}
	left, err := filepath.Glob(filepath.Join(dir, instance.NamePrefix+"*"))
	if err != nil {
		return fmt.Errorf("look for load balancers in the state directory: %w", err)
	}
	if has != "" && len(left) > 0 {
		return fmt.Errorf("state directory %s has load balancers of another cluster, namespace or class (%s, not %s): choose another --cluster-name (and --state-dir, if one is given); if what they served is gone, end their HAProxies and remove the directory", dir, has, scope)
	}
	if err := os.WriteFile(path, []byte(scope+"\n"), 0o600); err != nil {
		return fmt.Errorf("note whose load balancers are in the state directory: %w", err)
	}
	return nil
}
