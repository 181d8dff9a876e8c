//go:build linux

package others

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// agents are the programs that proxy Services, by the names of their processes (the
// kernel keeps 15 bytes).
var agents = map[string]string{
	"kube-proxy": "kube-proxy", "cilium-agent": "Cilium", "kube-router": "kube-router", "antrea-agent": "Antrea",
	"ovnkube": "OVN-Kubernetes", "plumb-proxy": "plumb-proxy",
}

// networks are those whose agents may be the pods' network and leave Services to others.
var networks = map[string]bool{"Cilium": true, "kube-router": true, "Antrea": true, "OVN-Kubernetes": true}

// processes looks at those that run in this namespace.
func processes(cfg Config) ([]Trace, error) { return processesOf(cfg, "") }

// processesOf looks at those of one agent alone; empty: of any.
func processesOf(cfg Config, who string) ([]Trace, error) {
	own, err := os.Readlink(cfg.Proc + "/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("look at processes: %w", err)
	}
	dirs, err := filepath.Glob(cfg.Proc + "/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("look at processes: %w", err)
	}
	var out []Trace
	for _, dir := range dirs {
		comm, err := os.ReadFile(dir + "/comm")
		name := strings.TrimSpace(string(comm))
		if err != nil || agents[name] == "" || who != "" && agents[name] != who { // ended meanwhile, or none of them
			continue
		}
		ns, err := os.Readlink(dir + "/ns/net")
		if errors.Is(err, fs.ErrPermission) {
			return out, fmt.Errorf("look at the namespace of process %s (%s): %w", filepath.Base(dir), name, err)
		}
		if err == nil && ns == own && filepath.Base(dir) != strconv.Itoa(os.Getpid()) && !looks(dir) {
			out = append(out, Trace{Who: agents[name], What: "process " + name, Network: networks[agents[name]]})
		}
	}
	return out, nil
}

// looks tells whether a process is another run's look: `plumb-proxy look`.
func looks(dir string) bool {
	argv, err := os.ReadFile(dir + "/cmdline")
	words := bytes.Split(argv, []byte{0})
	return err == nil && len(words) > 1 && string(words[1]) == "look"
}

// ofLink is whose a link is that only they make. A link says that an agent works here, or
// did.
func ofLink(name string) string {
	return map[string]string{
		"kube-ipvs0": "kube-proxy", "kube-dummy-if": "kube-router", "cilium_host": "Cilium", "antrea-gw0": "Antrea", "ovn-k8s-mp0": "OVN-Kubernetes",
	}[name]
}

// links looks at the links of this namespace.
func links(Config) ([]Trace, error) {
	list, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("look at links: %w", err)
	}
	var out []Trace
	for _, l := range list {
		if who := ofLink(l.Attrs().Name); who != "" {
			out = append(out, Trace{Who: who, What: "link " + l.Attrs().Name, Network: networks[who]})
		}
	}
	return out, nil
}
