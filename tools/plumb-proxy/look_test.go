package main

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// TestLookAsks: who answers is told, and with --await who does not.
func TestLookAsks(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	closed, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	o, c := open.Addr().String(), closed.Addr().String()
	refused := fmt.Sprintf("%s does not answer: dial tcp %s: connect: connection refused\n", c, c)
	for _, tc := range []struct {
		args string
		code int
		out  string
	}{
		{"--only-connect", 0, ""},
		{"--only-connect --connect=" + c, 0, ""},
		{"--only-connect --connect=" + o + "," + c, 3, "somebody: " + o + " answers\n"},
		{"--only-connect --await=10s --connect=" + o, 0, ""},
		{"--only-connect --await=500ms --connect=" + o + "," + c, 3, refused},
	} {
		var stdout, stderr strings.Builder
		code := run(append([]string{"look"}, strings.Fields(tc.args)...), &stdout, &stderr)
		if code != tc.code || stdout.String() != tc.out || stderr.Len() > 0 {
			t.Errorf("%s: exit %d, %q, %q; want %d, %q", tc.args, code, stdout.String(), stderr.String(), tc.code, tc.out)
		}
	}
}

// TestLookAwaits: it ends as soon as all answer.
func TestLookAwaits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
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
	if l, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if code := <-done; code != 0 {
		t.Errorf("it ended with %d", code)
	}
}
