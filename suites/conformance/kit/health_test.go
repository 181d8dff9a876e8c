package kit

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// Where a health check is over 200 is wrong; another status, and nobody there, are right and said.
func TestExpectNoCheck(t *testing.T) {
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer srv.Close()
	at := netip.MustParseAddrPort(srv.Listener.Addr().(*net.TCPAddr).String())
	probe := remote.Local(t.Context(), "x", nil)
	t.Cleanup(probe.Close)
	ask := func() (out outcome, ok bool, said string) {
		s := &Spec{env: &Env{}, ctx: t.Context(), at: time.Now().Add(-time.Hour), held: map[string]bool{}}
		out, ok = s.protected(func(s *Spec) { s.ExpectNoCheck(Client{Name: "x", probe: probe}, at) })
		return out, ok, strings.Join(s.said, "; ")
	}
	if out, ok, _ := ask(); ok || out.result != ResultFail || !strings.Contains(out.reason, "want no status 200") {
		t.Errorf("200: %v, %+v", ok, out)
	}
	status = http.StatusServiceUnavailable
	if out, ok, said := ask(); !ok || !strings.Contains(said, "status 503") {
		t.Errorf("503: %+v, said %q", out, said)
	}
	srv.Close()
	if out, ok, said := ask(); !ok || !strings.Contains(said, string(remote.Refused)) {
		t.Errorf("closed: %+v, said %q", out, said)
	}
}
