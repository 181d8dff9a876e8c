package agent

import (
	"context"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// events writes Events about Services and the own Node.
type events struct {
	record.EventRecorder
	node string
}

func (e events) Warn(service objects.Name, reason, text string) {
	about := &corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: service.Namespace, Name: service.Name}
	e.Event(about, corev1.EventTypeWarning, reason, text)
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
