package lbprovider

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// nodes answers for the machines of a cluster (InstancesV2). Of a cluster whose
// machines are another's it says that each exists as it is.
type nodes struct {
	prefix   string // of providerIDs; empty: another's
	machines machines
}

// machine is the name of the machine of a node: from its providerID, else
// from its name.
func (n *nodes) machine(node *v1.Node) (string, error) {
	id := node.Spec.ProviderID
	if id == "" || n.prefix == "" {
		return node.Name, nil
	}
	name, ok := strings.CutPrefix(id, n.prefix)
	if !ok || name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("node %s: providerID %q does not begin with %s", node.Name, id, n.prefix)
	}
	return name, nil
}

// InstanceExists implements cloudprovider.InstancesV2.
func (n *nodes) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	name, err := n.machine(node)
	if err != nil {
		return false, err
	}
	_, ok, err := n.machines.Machine(ctx, name)
	return ok, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (n *nodes) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	name, err := n.machine(node)
	if err != nil {
		return false, err
	}
	m, ok, err := n.machines.Machine(ctx, name)
	return ok && !m.Running, err
}

// InstanceMetadata implements cloudprovider.InstancesV2. A stopped machine has
// no address of its own; then the Node keeps those it has.
func (n *nodes) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	name, err := n.machine(node)
	if err != nil {
		return nil, err
	}
	m, ok, err := n.machines.Machine(ctx, name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, cloudprovider.InstanceNotFound
	}
	if n.prefix == "" {
		return &cloudprovider.InstanceMetadata{ProviderID: node.Spec.ProviderID, NodeAddresses: node.Status.Addresses}, nil
	}
	scheme, _, _ := strings.Cut(n.prefix, ":")
	meta := &cloudprovider.InstanceMetadata{
		ProviderID:    n.prefix + name,
		InstanceType:  scheme + "-node",
		NodeAddresses: []v1.NodeAddress{{Type: v1.NodeHostName, Address: name}},
	}
	for _, a := range m.Addrs {
		meta.NodeAddresses = append(meta.NodeAddresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: a.String()})
	}
	if len(m.Addrs) == 0 {
		meta.NodeAddresses = node.Status.Addresses
	}
	return meta, nil
}
