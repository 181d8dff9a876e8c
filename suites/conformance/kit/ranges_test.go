package kit

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// atlas is a stage of which only its run and its load balancers' range are known.
type atlas struct{ Stage }

func (atlas) Run() cluster.Run { return "run-aaaaa" }

func (atlas) LBRanges() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("172.20.8.0/24")} }

// Probes may connect to what the API and the stage tell of the cluster, to addresses for
// documentation, and to what the user adds; where the API does not tell of Services, the
// user must.
func TestRanges(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24", "fd00:1::/64"}}}
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeInternalIP, Address: "172.20.0.3"},
		{Type: corev1.NodeInternalIP, Address: "fd02::3"}, {Type: corev1.NodeExternalIP, Address: "198.18.0.1"},
	}
	services := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}
	api := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}}}
	const made = "192.0.2.0/24,198.51.100.0/24,203.0.113.0/24,2001:db8::/32"
	none := func(c *fake.Clientset) {
		c.PrependReactor("list", "servicecidrs", func(ktesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(networkingv1.Resource("servicecidrs"), "")
		})
	}
	forbidden := func(c *fake.Clientset) {
		c.PrependReactor("list", "servicecidrs", func(ktesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(networkingv1.Resource("servicecidrs"), "", errors.New("no"))
		})
	}
	for name, c := range map[string]struct {
		more    string
		api     func(*fake.Clientset)
		want    string
		wantErr string
	}{
		"told by the API": {want: "10.96.0.0/16,10.244.1.0/24,fd00:1::/64,172.20.0.3/32,fd02::3/128,172.20.8.0/24," + made},
		"and the user":    {more: "10.0.0.0/24", want: "10.0.0.0/24,10.96.0.0/16,10.244.1.0/24,fd00:1::/64,172.20.0.3/32,fd02::3/128,172.20.8.0/24," + made},
		"by the user":     {more: "10.96.0.0/12", api: none, want: "10.96.0.0/12,10.244.1.0/24,fd00:1::/64,172.20.0.3/32,fd02::3/128,172.20.8.0/24," + made},
		"by nobody":       {api: none, wantErr: "10.96.0.1 is one; give --probe-ranges their range"},
		"of pods alone":   {more: "10.244.0.0/16", api: none, wantErr: "10.96.0.1 is one; give --probe-ranges their range"},
		"not to everyone": {more: "10.96.0.0/12", api: forbidden, want: "10.96.0.0/12,10.244.1.0/24,fd00:1::/64,172.20.0.3/32,fd02::3/128,172.20.8.0/24," + made},
		"to nobody":       {api: forbidden, wantErr: "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(node, services, api)
			if c.api != nil {
				c.api(client)
			}
			more, err := remote.ParseRanges(c.more)
			if err != nil {
				t.Fatal(err)
			}
			e := &Env{client: client, stage: atlas{}, cfg: Config{Ranges: more}}
			got, err := e.findRanges(t.Context())
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Errorf("%v, want %q", err, c.wantErr)
				}
				return
			}
			if err != nil || got.String() != c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

// A pod whose address is none of them is told of before anything is measured.
func TestPodBesideRanges(t *testing.T) {
	e := &Env{ranges: remote.Ranges{netip.MustParsePrefix("10.244.0.0/16")}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe-a-x"}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.1.7"}}}}
	_, err := e.pod(t.Context(), &Node{}, pod)
	if want := "pod probe-a-x has the address 10.0.1.7, and the Nodes' podCIDRs do not: give --probe-ranges the range of pods"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// The probes' manifest has the run's key in a Secret, and nowhere else.
func TestKeyIsInTheSecret(t *testing.T) {
	api := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default"}}
	e := &Env{client: fake.NewClientset(api), stage: atlas{}, key: key(), namespace: "ns"}
	manifest, err := e.manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(manifest, "\n---\n") {
		if secret := strings.Contains(doc, "\nkind: Secret\n"); secret != (longest(doc) > 500) {
			t.Errorf("where the key is:\n%s", doc)
		}
	}
	if strings.Contains(manifest, "PRIVATE KEY") {
		t.Error("the key is in clear")
	}
}

// Every pod that a selector may find is one that the suite knows: none is on a node of the control
// plane, which may take pods.
func TestProbesAreNotOnTheControlPlane(t *testing.T) {
	api := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default"}}
	e := &Env{client: fake.NewClientset(api), stage: atlas{}, key: key(), namespace: "ns"}
	manifest, err := e.manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sets := 0
	for doc := range strings.SplitSeq(manifest, "\n---\n") {
		var set appsv1.DaemonSet
		if err := yaml.Unmarshal([]byte(doc), &set); err != nil {
			t.Fatal(err)
		}
		if set.Kind != "DaemonSet" {
			continue
		}
		sets++
		want := []corev1.NodeSelectorRequirement{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.NodeSelectorOpDoesNotExist}}
		a := set.Spec.Template.Spec.Affinity
		if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			t.Errorf("%s may be on any node", set.Name)
			continue
		}
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			if diff := cmp.Diff(want, term.MatchExpressions); diff != "" {
				t.Errorf("%s may be on other nodes (-want +have):\n%s", set.Name, diff)
			}
		}
	}
	if sets != 3 {
		t.Errorf("%d DaemonSets", sets)
	}
}

// longest is the length of the longest word.
func longest(s string) (n int) {
	for w := range strings.FieldsSeq(s) {
		n = max(n, len(w))
	}
	return n
}

// A namespace of the run's name that is somebody else's is neither used nor deleted.
func TestNamespaceOfOthers(t *testing.T) {
	for name, label := range map[string]string{"nobody's": "", "another run's": "run-bbbbb", "ours": "run-aaaaa"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "u", Labels: map[string]string{cluster.Label: label}}}
		e := &Env{client: fake.NewClientset(ns), stage: atlas{}, namespace: "ns"}
		err := e.ownNamespace(t.Context())
		if ours := name == "ours"; ours != (err == nil) || ours != (e.uid == "u") || !ours && !strings.Contains(err.Error(), cluster.ErrTaken.Error()) {
			t.Errorf("%s: uid %q, %v", name, e.uid, err)
		}
	}
}
