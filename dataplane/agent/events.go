package agent

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// events writes Events about Services and the own Node. What is wrong with objects is everybody's.
type events struct {
	record.EventRecorder
	everybodys record.EventRecorder // of no host
	node       string
}

func newEvents(b record.EventBroadcaster, client kubernetes.Interface, node string) events {
	b.StartRecordingToSink(shared{&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}})
	from := func(host string) record.EventRecorder {
		return b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "plumb-proxy", Host: host})
	}
	return events{from(node), from(""), node}
}

func (e events) Warn(service objects.Name, reason, text string) {
	e.Event(aService(service), corev1.EventTypeWarning, reason, text)
}

func (e events) WarnOfObject(service objects.Name, reason, text string) {
	e.everybodys.Event(aService(service), corev1.EventTypeWarning, reason, text)
}

func aService(name objects.Name) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: name.Namespace, Name: name.Name}
}

// shared names an Event of no host by what it says: the agents of all nodes see the same of an
// object, and the API keeps one Event of them all. The others are told that it is there.
type shared struct{ record.EventSink }

func (s shared) Create(e *corev1.Event) (*corev1.Event, error) {
	if e.Source.Host == "" {
		said := fnv.New64a()
		fmt.Fprintf(said, "%s %s", e.Reason, e.Message)
		e.Name = fmt.Sprintf("%s.%016x", e.InvolvedObject.Name, said.Sum64())
	}
	return s.EventSink.Create(e)
}

func (e events) WarnNode(reason, text string) {
	// A Node's name stands for its UID, which is not known: kubelet's own Events do so too.
	about := &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: e.node, UID: types.UID(e.node)}
	e.Event(about, corev1.EventTypeWarning, reason, text)
}

// bindable turns [::] into 0.0.0.0 on a host without IPv6. Both mean everything.
func bindable(ctx context.Context, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "::" {
		return addr
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp6", "[::]:0")
	if err != nil {
		return net.JoinHostPort("0.0.0.0", port)
	}
	_ = ln.Close()
	return addr
}
