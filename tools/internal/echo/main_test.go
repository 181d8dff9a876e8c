package echo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/plumbline/plumbline/fixtures/workload/server"
)

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--port", "70000"}, {"--port", "x"}, {"--delay-shutdown", "-1s"}, {"--no-such-flag"}, {"extra"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(t.Context(), args, func(string) string { return "" }, io.Discard, &stderr); code != 2 {
				t.Errorf("exit %d, want 2", code)
			}
			if stderr.Len() == 0 {
				t.Error("no word about it")
			}
		})
	}
}

// TestSIGTERM: identity from the environment, both families, exit 0 on SIGTERM.
func TestSIGTERM(t *testing.T) {
	env := map[string]string{"POD_NAME": "echo-1", "POD_UID": "abc", "NODE_NAME": "worker"}
	r, w := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	go func() {
		code <- run(ctx, []string{"--port", "0"}, func(k string) string { return env[k] }, w, &stderr)
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	var up server.Line
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &up) != nil || up.Event != "listening" {
		t.Fatalf("first line %q (stderr %q)", lines.Text(), stderr.String())
	}
	port := up.Addr[strings.LastIndex(up.Addr, ":"):]
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		resp, err := http.Get("http://" + host + port + "/?seq=5")
		if err != nil {
			t.Fatal(err)
		}
		var a server.Answer
		err = json.NewDecoder(resp.Body).Decode(&a)
		resp.Body.Close()
		if want := (server.Answer{Seq: 5, Pod: "echo-1", UID: "abc", Node: "worker"}); err != nil || a != want {
			t.Errorf("%s: answer %+v, %v; want %+v", host, a, err, want)
		}
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var events []string
	for lines.Scan() {
		var l server.Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		events = append(events, l.Event)
	}
	if got := strings.Join(events, " "); got != "sigterm closing exit" {
		t.Errorf("events %q", got)
	}
	if c := <-code; c != 0 {
		t.Errorf("exit %d, want 0: %s", c, stderr.String())
	}
}
