package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// TestLookAsks: who answers is told, and with --await who does not.
func TestLookAsks(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	o, c := open.Addr().String(), fmt.Sprintf("127.0.0.2:%d", need.Port(t))
	refused := fmt.Sprintf("%s does not answer: dial tcp %s: connect: connection refused\n", c, c)
	for _, tc := range []struct {
		args string
		code int
		out  string
	}{
		{"--only-connect", 0, ""},
		{"--only-connect --connect=" + c, 0, ""},
		{"--only-connect --connect=" + o + "," + c, 3, "somebody: " + o + " answers\n"},
		{"--only-connect --connect=" + o + "," + o, 3, "somebody: " + o + " answers\n"},
		{"--only-connect --await=10s --connect=" + o, 0, ""},
		{"--only-connect --await=3s --connect=" + o + "," + c, 3, refused},
	} {
		var stdout, stderr strings.Builder
		code := run(append([]string{"look"}, strings.Fields(tc.args)...), &stdout, &stderr)
		if code != tc.code || stdout.String() != tc.out || stderr.Len() > 0 {
			t.Errorf("%s: exit %d, %q, %q; want %d, %q", tc.args, code, stdout.String(), stderr.String(), tc.code, tc.out)
		}
	}
}

// TestLookTellsStrangers: where whoever is on the way out answers for every address, an
// API server is told by its certificate, and stands for the rest.
func TestLookTellsStrangers(t *testing.T) {
	t.Parallel()
	need.Root(t) // ports below 1024
	ns := netns.ForTest(t, "look")
	const stranger, api = "127.0.0.3", "127.0.0.4"
	listen := func(at string) (l net.Listener) {
		err := ns.Do(func() (err error) { l, err = net.Listen("tcp", at); return err })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	for _, at := range []string{stranger + ":1", stranger + ":53", stranger + ":443", api + ":1", api + ":53"} {
		listen(at)
	}
	serveTLS(t, listen(api+":443"), "kubernetes.default.svc")
	for _, tc := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"--connect=" + stranger + ":53," + stranger + ":443", 0, "", ""},
		{"--connect=" + stranger + ":53", 1, "", "answers at a port that is no Service's too, and no API server is among the addresses"},
		{"--connect=" + api + ":53," + api + ":443", 3, "somebody: " + api + ":443 answers\n", ""},
		{"--await=10s --connect=" + api + ":53," + api + ":443", 0, "", ""},
		{"--await=1ms --connect=" + stranger + ":53," + stranger + ":443", 3, stranger + ":53 does not answer: whoever", ""},
	} {
		stdout, stderr, code := (&world{ns: ns}).call(t, append([]string{"look", "--only-connect"}, strings.Fields(tc.args)...)...)
		if code != tc.code || !strings.HasPrefix(stdout, tc.out) || (tc.out == "") != (stdout == "") || !strings.Contains(stderr, tc.err) || (tc.err == "") != (stderr == "") {
			t.Errorf("%s: exit %d, %q, %q; want %d, %q, %q", tc.args, code, stdout, stderr, tc.code, tc.out, tc.err)
		}
	}
}

// serveTLS serves with a certificate of its own for a name.
func serveTLS(t *testing.T, l net.Listener, name string) {
	t.Helper()
	pem, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(pem, key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Listener.Close()
	s.Listener, s.TLS = l, &tls.Config{Certificates: []tls.Certificate{pair}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // strangers hang up
	s.StartTLS()
	t.Cleanup(s.Close)
}

// TestLookHearsNothing: where nobody answers at all, that is silence as well.
func TestLookHearsNothing(t *testing.T) {
	t.Parallel()
	at := netns.ListenSilently(t).Addr
	var stdout, stderr strings.Builder
	if code := run([]string{"look", "--only-connect", "--connect=" + at.String()}, &stdout, &stderr); code != 0 || stdout.Len()+stderr.Len() > 0 {
		t.Errorf("exit %d, %q, %q", code, stdout.String(), stderr.String())
	}
}

// TestLookCannotAsk: what this host does not even send says nothing.
func TestLookCannotAsk(t *testing.T) {
	var stdout, stderr strings.Builder
	code := run([]string{"look", "--only-connect", "--connect=[fe80::1]:80"}, &stdout, &stderr) // on which link?
	if code != 1 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "invalid argument") {
		t.Errorf("exit %d, %q, %q", code, stdout.String(), stderr.String())
	}
}

// TestLookCutShort: what was not asked to its end found nobody silent.
func TestLookCutShort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	at := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}
	for _, l := range []look{{only: true}, {only: true, connect: at}, {only: true, connect: at, await: time.Minute}} {
		var stdout, stderr strings.Builder
		if code := l.run(ctx, &stdout, &stderr); code != 1 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "cancel") {
			t.Errorf("exit %d, %q, %q", code, stdout.String(), stderr.String())
		}
	}
}

// TestLookAwaits: it ends as soon as all answer.
func TestLookAwaits(t *testing.T) {
	at := freePort(t)
	done := make(chan int, 1)
	go func() {
		var out strings.Builder
		done <- run([]string{"look", "--only-connect", "--await=1m", "--connect=" + at}, &out, &out)
	}()
	select {
	case code := <-done:
		t.Fatalf("it ended with %d though nobody listens", code)
	case <-time.After(500 * time.Millisecond): // for which it should go on
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if code := <-done; code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

// TestLookLeavesAMessage: what is said is in the file as well when it has ended, whether it
// was found or could not be; nothing is made where there is no file.
func TestLookLeavesAMessage(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	o := open.Addr().String()
	message := filepath.Join(t.TempDir(), "termination-log")
	for _, tc := range []struct {
		there bool
		args  []string
		code  int
		want  string
	}{
		{false, []string{"--only-connect", "--connect=" + o}, 3, ""},
		{true, []string{"--only-connect", "--connect=" + o}, 3, "somebody: " + o + " answers\n"},
		{true, []string{"--only-connect", "--connect=[fe80::1]:80"}, 1, "plumb-proxy: look: "},
	} {
		if tc.there {
			if err := os.WriteFile(message, nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		var stdout, stderr strings.Builder
		code := run(append([]string{"look", "--message=" + message}, tc.args...), &stdout, &stderr)
		text, err := os.ReadFile(message)
		if code != tc.code || !strings.HasPrefix(string(text), tc.want) || tc.there != (err == nil) || tc.there && string(text) != stdout.String()+stderr.String() {
			t.Errorf("%v: exit %d, %q (%v), printed %q %q; want %d, %q", tc.args, code, text, err, stdout.String(), stderr.String(), tc.code, tc.want)
		}
	}
}
