package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Of what all nodes see of an object the API has one Event, of what a node does one each.
func TestEventsOfObjectsAreShared(t *testing.T) {
	client := fake.NewClientset()
	for _, node := range []string{"node-1", "node-2"} {
		b := record.NewBroadcaster(record.WithContext(t.Context()))
		defer b.Shutdown()
		e := newEvents(b, client, node)
		web := objects.Name{Namespace: "ns", Name: "web"}
		e.WarnOfObject(web, "AddressClaimedTwice", "by ns/other too")
		e.WarnOfObject(web, "AddressClaimedTwice", "by ns/third too")
		e.Warn(web, "RefusedByKernel", "too long")
		e.WarnNode("NodeNotKnown", "there is no such Node")
	}
	for start := time.Now(); len(client.Actions()) < 8; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("%d requests, want 8", len(client.Actions()))
		}
	}
	list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.Items {
		if !strings.HasPrefix(e.Name, e.InvolvedObject.Name+".") || e.Type != corev1.EventTypeWarning {
			t.Errorf("Event %s of type %s about %s", e.Name, e.Type, e.InvolvedObject.Name)
		}
		got = append(got, strings.Join([]string{e.Namespace, e.InvolvedObject.Name, e.Reason, e.Message, e.Source.Host}, "|"))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{
		"default|node-1|NodeNotKnown|there is no such Node|node-1",
		"default|node-2|NodeNotKnown|there is no such Node|node-2",
		"ns|web|AddressClaimedTwice|by ns/other too|",
		"ns|web|AddressClaimedTwice|by ns/third too|",
		"ns|web|RefusedByKernel|too long|node-1",
		"ns|web|RefusedByKernel|too long|node-2",
	}, got); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}
