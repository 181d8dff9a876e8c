package stage

import (
	"log/slog"
	"strings"
	"testing"
)

// What is unknown, or what a cluster cannot be given, is refused before anything is made.
func TestEnterRefusesWhatIsOfAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		o    Options
		want string
	}{
		"profile":     {Options{Cluster: "kind"}, `unknown load balancer profile ""`},
		"unknown":     {Options{Cluster: "lab", ControlPlane: "k3s"}, `unknown --control-plane "k3s"; known: model, real`},
		"of kind":     {Options{Cluster: "kind", ControlPlane: Real}, "--control-plane=real is of a lab; "},
		"subnet":      {Options{Cluster: "lab", Subnet: "10.9.0.0/16"}, "--subnet and --node-image are of kind; "},
		"node image":  {Options{Cluster: "existing", NodeImage: "i"}, "--subnet and --node-image are of kind; "},
		"stock image": {Options{Cluster: "kind", NodeImage: "kindest/node:v1.36.3", PodAddresses: "elsewhere"}, "--pod-addresses=elsewhere is for node images of this project"},
		"of somebody": {Options{Cluster: "existing", ControlPlane: Real}, "--control-plane=real is of a lab; "},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "profile" {
				tc.o.Profile = "seed"
			}
			if err := Enter(t.Context(), &tc.o, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want %q", err, tc.want)
			}
		})
	}
}
