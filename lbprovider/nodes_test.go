package lbprovider

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/plumbline/plumbline/lbprovider/instance"
)

func TestInstances(t *testing.T) {
	n := &nodes{prefix: "kind://docker/c/", machines: fakeMachines{
		"w1": {Running: true, Addrs: []netip.Addr{netip.MustParseAddr("172.30.0.3"), netip.MustParseAddr("fc00::3")}},
		"w2": instance.Machine{},
	}}
	node := func(name, id string) *v1.Node {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{ProviderID: id}}
		n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "172.30.0.99"}}
		return n
	}
	for _, c := range []struct {
		name           string
		node           *v1.Node
		exists, isDown bool
		bad            bool
	}{
		{"by name", node("w1", ""), true, false, false},
		{"by providerID, which wins", node("renamed", "kind://docker/c/w1"), true, false, false},
		{"stopped", node("w2", ""), true, true, false},
		{"gone", node("w3", "kind://docker/c/w3"), false, false, false},
		{"of another cluster", node("w1", "kind://docker/other/w1"), false, false, true},
		{"of another cloud", node("w1", "aws:///x/i-1"), false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			exists, err := n.InstanceExists(t.Context(), c.node)
			if exists != c.exists || (err != nil) != c.bad {
				t.Errorf("exists %t, %v", exists, err)
			}
			down, err := n.InstanceShutdown(t.Context(), c.node)
			if down != c.isDown || (err != nil) != c.bad {
				t.Errorf("shut down %t, %v", down, err)
			}
		})
	}
	meta, err := n.InstanceMetadata(t.Context(), node("w1", ""))
	want := &cloudprovider.InstanceMetadata{
		ProviderID: "kind://docker/c/w1", InstanceType: "kind-node",
		NodeAddresses: []v1.NodeAddress{
			{Type: v1.NodeHostName, Address: "w1"},
			{Type: v1.NodeInternalIP, Address: "172.30.0.3"},
			{Type: v1.NodeInternalIP, Address: "fc00::3"},
		},
	}
	if d := cmp.Diff(want, meta); d != "" || err != nil {
		t.Errorf("metadata: %v (-want +got):\n%s", err, d)
	}
	stopped, err := n.InstanceMetadata(t.Context(), node("w2", ""))
	if err != nil || stopped.NodeAddresses[0].Address != "172.30.0.99" {
		t.Errorf("a stopped machine: %+v, %v; want the Node's own addresses", stopped, err)
	}
	others := &nodes{machines: &instance.Host{}}
	for _, id := range []string{"", "aws:///x/i-1", "kind://docker/c/w1"} {
		foreign := node("n", id)
		exists, err := others.InstanceExists(t.Context(), foreign)
		down, err2 := others.InstanceShutdown(t.Context(), foreign)
		meta, err3 := others.InstanceMetadata(t.Context(), foreign)
		want := &cloudprovider.InstanceMetadata{ProviderID: id, NodeAddresses: foreign.Status.Addresses}
		if d := cmp.Diff(want, meta); d != "" || !exists || down || errors.Join(err, err2, err3) != nil {
			t.Errorf("another's node %q: exists %t, down %t, %v, %v, %v (-want +got):\n%s", id, exists, down, err, err2, err3, d)
		}
	}
	if _, err := n.InstanceMetadata(t.Context(), node("w3", "")); !errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Errorf("error %v, want InstanceNotFound", err)
	}
}
