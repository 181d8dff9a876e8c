package main

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

// scopeOf names what a provider serves: a cluster, known by the certificates of its authority
// or else by its API's address, and of its Services those of a namespace and a class. What it
// does not serve it must not take for what no Service wants any more.
func scopeOf(config *rest.Config, o options) (string, error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return "", fmt.Errorf("read the kubeconfig %s: %s", o.kubeconfig, oneLine(err))
	}
	sum := sha256.Sum256([]byte(cmp.Or(string(config.CAData), config.Host)))
	return strings.Join([]string{hex.EncodeToString(sum[:6]), o.namespace, o.class}, "/"), nil
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
	if err == nil && has == scope {
		return nil
	}
	if err == nil {
		left, globErr := filepath.Glob(filepath.Join(dir, instance.NamePrefix+"*"))
		if globErr != nil || len(left) > 0 {
			return errors.Join(globErr, fmt.Errorf("state directory %s has load balancers of another cluster, namespace or class (%s, not %s): choose another --cluster-name or --state-dir", dir, has, scope))
		}
	}
	if err := os.WriteFile(path, []byte(scope+"\n"), 0o600); err != nil {
		return fmt.Errorf("note whose load balancers are in the state directory: %w", err)
	}
	return nil
}
