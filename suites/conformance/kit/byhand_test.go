package kit

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// aKubectl notes what it is asked, keeps what it applies, and answers for a cluster in which pods and Services have other addresses.
const aKubectl = `#!/bin/sh
echo "$*" >>"$NOTED/asked"
case "$*" in
apply*) cat >"$NOTED/$(ls "$NOTED" | wc -l).yaml" ;;
*"pod a-1 "*) printf 'fd00::11\n172.16.0.11\n' ;;
*"pod b-2 "*) printf '172.16.0.22\n' ;;
*"pod host-1 "*) printf '172.16.9.1\n' ;;
*clusterIPs*) printf 'fd00::99\n172.16.0.99\n' ;;
*nodePort*) printf 'UDP/dns=31053\nTCP/http=31080\n' ;;
esac
`

// The script makes the steps in another cluster: objects with that one's addresses and nodes, dials to
// where its Services are.
func TestByHand(t *testing.T) {
	s, _ := charted()
	s.services, s.ctx, s.id = nil, t.Context(), "x"
	s.env.client = fake.NewClientset()
	one, two := s.Nodes[0], s.Nodes[1]
	svc := s.Service(NodePorts, ExternalLocal, func(o *corev1.Service) { o.Annotations = map[string]string{"x": "`touch hostile`$(touch hostile)"} })
	svc.obj.Spec.ClusterIP, svc.obj.Spec.ClusterIPs, svc.obj.Spec.Ports[0].NodePort = "10.96.0.9", []string{"10.96.0.9"}, 30080
	svc.Endpoints(one.A.Ready(), two.B.Draining().ForNodes("two"))
	res := &remote.Results{Attempts: make([]remote.Result, 40)}
	for _, w := range []Way{{one.A.Client, TCP(svc.ClusterIP())}, {s.Outside(), TCP(svc.NodePort(one))}, {one.Client, UDP(svc.ClusterIP())}} {
		w.From.Name = map[string]string{"": Outside}[w.From.Name] + w.From.Name
		s.asks(w.From, w.To)
		s.dialled(w, Want{text: "answers"}.FromItself(), res, "")
	}
	host := Client{Name: Outside, router: two}
	s.did(handHost(two, "beyond1", netip.MustParsePrefix("192.0.2.5/30"), netip.MustParsePrefix("192.0.2.6/30")), "made a host outside")
	s.dialled(Way{host.As(netip.MustParseAddr("192.0.2.7")), UDP(netip.MustParseAddrPort("198.51.100.1:80"))}, Want{text: "answers"}, res, "")
	s.did(handNode(two, "cordon"), "cordoned node two")
	s.did(nil, "killed something")
	svc.Delete()
	text, err := s.script("It says $(touch hostile).", s.steps)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n# as root on $N2 (two), ", "\n#     ip -n beyond1 route add default via 192.0.2.5\n", "\n# from the host beyond $N2 (two): nc -u -s 192.0.2.7 -v -w 2 \"198.51.100.1\" 80\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"bin/kubectl": aKubectl, "bin/nc": "#!/bin/sh\necho who answers\n", "by-hand.sh": text} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	noted := filepath.Join(dir, "noted")
	run := func(env ...string) (out, asked string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(noted), os.Mkdir(noted, 0o755)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "by-hand.sh"), "worker-1")
		cmd.Env, cmd.Dir = append(os.Environ(), append(env, "PATH="+filepath.Join(dir, "bin")+":/usr/bin:/bin", "NOTED="+noted)...), dir
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s\n%s", err, said, text)
		}
		all, err := os.ReadFile(filepath.Join(noted, "asked"))
		if err != nil {
			t.Fatal(err)
		}
		return string(said), string(all)
	}
	// What goes on beyond the namespace is only told.
	if out, asked := run(); !strings.Contains(out, "left out, CHANGE=yes does it: kubectl cordon two") || strings.Contains(asked, "cordon") {
		t.Errorf("a node is changed:\n%s\n%s", out, asked)
	}
	out, asked := run("CHANGE=yes")
	for _, want := range []string{"a-1, 10 times, to 172.16.0.99 port 80/tcp:", "outside, 10 times, to 172.16.9.1 port 31080/tcp:\n     10 who answers\n", "outside is seen by servers of 172.16.9.1 port 31080/tcp as:\n     10 who answers\n", "host-1, 10 times, to 10.96.0.9 port 80/udp:"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	for _, want := range []string{"cordon two", "delete -n plumbline-by-hand service x-s1", "delete -n plumbline-by-hand endpointslice -l kubernetes.io/service-name=x-s1", "wait -n plumbline-by-hand --for=condition=Ready"} {
		if !strings.Contains(asked, want) {
			t.Errorf("it does not ask kubectl to %s:\n%s", want, asked)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "hostile")); err == nil {
		t.Error("a text was run")
	}
	var slice discoveryv1.EndpointSlice
	var made corev1.Service
	var pods []string
	files, _ := filepath.Glob(filepath.Join(noted, "*.yaml"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var pod corev1.Pod
		switch {
		case strings.Contains(string(b), "kind: EndpointSlice"):
			err = yaml.UnmarshalStrict(b, &slice)
		case strings.Contains(string(b), "kind: Service"):
			err = yaml.UnmarshalStrict(b, &made)
		default:
			err = yaml.UnmarshalStrict(b, &pod)
			pods = append(pods, pod.Name+" on "+pod.Spec.NodeName+map[bool]string{true: " itself"}[pod.Spec.HostNetwork])
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", f, err, b)
		}
	}
	if d := cmp.Diff([]string{"a-1 on worker-1", "b-2 on two", "host-1 on worker-1 itself"}, pods); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	if strings.Contains(text, "status:") {
		t.Errorf("a status is applied:\n%s", text)
	}
	if made.Spec.Type != corev1.ServiceTypeNodePort || made.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || made.Namespace != "" || made.Spec.ClusterIP != "" || made.Spec.Ports[0].NodePort != 0 {
		t.Errorf("Service %+v", made)
	}
	got := []string{}
	for _, e := range slice.Endpoints {
		got = append(got, e.Addresses[0], *e.NodeName)
	}
	if d := cmp.Diff([]string{"172.16.0.11", "worker-1", "172.16.0.22", "two"}, got); d != "" || slice.Endpoints[1].Hints.ForNodes[0].Name != "two" || slice.Labels[discoveryv1.LabelServiceName] != "x-s1" {
		t.Errorf("slice (-want +got):\n%s", d)
	}
}
