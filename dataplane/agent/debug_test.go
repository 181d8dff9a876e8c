package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/kubeproxy"
	"github.com/plumbline/plumbline/fixtures/need"
)

// Root and the agent's own user are answered at the socket, nobody else, and no more at a time
// than there is room for.
func TestDebugSocket(t *testing.T) {
	need.Root(t)
	at := fmt.Sprintf("@plumb-debug-%d", os.Getpid())
	ctx, cancel := context.WithCancel(t.Context())
	i := &Inspector{Mode: "nftables", Logger: slog.New(slog.DiscardHandler)}
	done := make(chan error, 1)
	go func() {
		done <- i.Serve(ctx, at)
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		uid  int
		want string
	}{{0, "400 frontend \"x\": give"}, {65534, "403 not answered: user 65534 is neither root nor the same one"}} {
		if got := ask(t, at, c.uid); !strings.HasPrefix(got, c.want) {
			t.Errorf("user %d hears %q, want %q", c.uid, got, c.want)
		}
	}
}

// ask is what a user hears of a question that nobody has to be asked about.
func ask(t *testing.T, at string, uid int) string {
	t.Helper()
	said := make(chan string)
	go func() {
		runtime.LockOSThread() // and ends with it: its user is another
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			said <- errno.Error()
			return
		}
		var c net.Conn
		var err error
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if c, err = net.Dial("unix", at); err == nil || time.Now().After(deadline) {
				break
			}
		}
		if err != nil {
			said <- err.Error()
			return
		}
		defer c.Close()
		client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}}
		r, err := client.Get("http://agent" + PathPath + "?frontend=x")
		if err != nil {
			said <- err.Error()
			return
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		said <- fmt.Sprint(r.StatusCode, " ", string(body))
	}()
	return <-said
}

func TestQuestionsAtOnce(t *testing.T) {
	inside, leave := make(chan bool), make(chan bool)
	h := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside <- true; <-leave }))
	answer := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(context.WithValue(t.Context(), asker{}, asker{}), http.MethodGet, ServicesPath, nil))
		return w.Code
	}
	codes := make(chan int, atOnce)
	for range atOnce {
		go func() { codes <- answer() }()
		<-inside
	}
	if code := answer(); code != http.StatusTooManyRequests {
		t.Errorf("one too many is answered %d", code)
	}
	unknown := httptest.NewRecorder()
	if h.ServeHTTP(unknown, httptest.NewRequest(http.MethodGet, ServicesPath, nil)); unknown.Code != http.StatusForbidden {
		t.Errorf("who is not known is answered %d", unknown.Code)
	}
	close(leave)
	for range atOnce {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("answered %d", code)
		}
	}
}

// As kube-proxy says it, and by whom.
func TestProxyMode(t *testing.T) {
	w := httptest.NewRecorder()
	metricsHandler("nftables", http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/proxyMode", nil))
	if w.Body.String() != "nftables" || w.Header().Get("Server") != kubeproxy.Ours {
		t.Errorf("%q by %q", w.Body, w.Header().Get("Server"))
	}
}
