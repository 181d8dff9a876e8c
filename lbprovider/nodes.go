package lbprovider

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// nodes answers for the machines of a kind cluster (InstancesV2).
type nodes struct {
	cluster  string
	machines machines
}

// providerID is what kind writes into node.spec.providerID.
func (n *nodes) providerID(node string) string {
	return "kind://docker/" + n.cluster + "/" + node
}

// container is the name of the machine of a node: from its providerID, else
// from its name.
func (n *nodes) container(node *v1.Node) (string, error) {
	id := node.Spec.ProviderID
	if id == "" {
		return node.Name, nil
	}
	name, ok := strings.CutPrefix(id, n.providerID(""))
	if !ok || name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("node %s: providerID %q is not of kind cluster %s", node.Name, id, n.cluster)
	}
	return name, nil
}

// InstanceExists implements cloudprovider.InstancesV2.
func (n *nodes) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	name, err := n.container(node)
	if err != nil {
		return false, err
	}
	_, ok, err := n.machines.Machine(ctx, name)
	return ok, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (n *nodes) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	name, err := n.container(node)
	if err != nil {
		return false, err
	}
	m, ok, err := n.machines.Machine(ctx, name)
	return ok && !m.Running, err
}

// InstanceMetadata implements cloudprovider.InstancesV2. A stopped machine has
// no address of its own; then the Node keeps those it has.
func (n *nodes) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	name, err := n.container(node)
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
	meta := &cloudprovider.InstanceMetadata{
		ProviderID:    n.providerID(name),
		InstanceType:  "kind-node",
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
