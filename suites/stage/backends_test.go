package stage

import (
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
)

// What backends need of a kernel is what the host knows how to look for.
func TestBackendsNeedWhatCanBeLookedFor(t *testing.T) {
	for _, b := range cluster.Backends() {
		if err := host.Supports(t.Context(), b.Kernel); len(b.Kernel) == 0 || err != nil && strings.Contains(err.Error(), "nobody knows") {
			t.Errorf("backend %s needs %q: %v", b.Name, b.Kernel, err)
		}
	}
	if err := host.Supports(t.Context(), []string{"magic"}); err == nil || !strings.Contains(err.Error(), `nobody knows how to look for "magic"`) {
		t.Errorf("magic: %v", err)
	}
}
