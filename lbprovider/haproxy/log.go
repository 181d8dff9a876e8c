package haproxy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// logFormat is one row per finished connection (configuration.txt 8.2.4).
// Nothing in it comes from a client but its address.
const logFormat = "conn %ci %cp %f %s %Ts %ms %Tw %Tc %Tt %B %ts %rc %ac %bi %bp"

// NoServer is %s of a connection that no server was up for.
const NoServer = "<NOSRV>"

// Line is one row of HAProxy's log. Exactly one of Conn and Server is set in
// a row that matters here; in others (check attempts, start-up notices) none.
type Line struct {
	At     time.Time // when HAProxy wrote it
	Text   string    // the row without its stamp
	Conn   *ConnLine
	Server *ServerLine
}

// ConnLine is a finished connection.
type ConnLine struct {
	Accepted              time.Time // whole milliseconds
	Client                netip.AddrPort
	Proxy                 string
	Node                  string // or NoServer
	WaitMS, DialMS, AllMS int
	Bytes                 int64
	Term                  string
	Retries               int
	Full                  bool           // when it ended there were MaxConns: who came meanwhile waited
	Source                netip.AddrPort // of the connection to the server; invalid: it was not begun
}

// ServerLine is a server that changed its state.
type ServerLine struct {
	Proxy string
	Node  string
	Up    bool
}

// ParseLog reads one row in "format timed".
func ParseLog(row string) (Line, error) {
	row = strings.TrimRight(row, "\r\n")
	_, rest, ok := strings.Cut(row, ">") // <level>
	stamp, text, ok2 := strings.Cut(rest, " ")
	if !ok || !ok2 {
		return Line{}, fmt.Errorf("read log row %.80q: no level and stamp", row)
	}
	at, err := time.Parse("2006-01-02T15:04:05.999999999Z07:00", stamp)
	if err != nil {
		return Line{}, fmt.Errorf("read log row %.80q: %w", row, err)
	}
	l := Line{At: at, Text: text}
	switch {
	case strings.HasPrefix(text, "conn "):
		if l.Conn, err = parseConn(strings.Fields(text)); err != nil {
			return Line{}, fmt.Errorf("read log row %.200q: %w", row, err)
		}
	case strings.HasPrefix(text, "Server "):
		l.Server = parseServerLine(text)
	}
	return l, nil
}

func parseConn(f []string) (*ConnLine, error) {
	if len(f) != 16 {
		return nil, fmt.Errorf("%d fields, want 16", len(f))
	}
	ip, err := netip.ParseAddr(f[1])
	if err != nil {
		return nil, err
	}
	n := make([]int64, len(f))
	for _, i := range []int{2, 5, 6, 7, 8, 9, 10, 12, 13} {
		// %rc carries a '+' after a redispatch.
		if n[i], err = strconv.ParseInt(strings.TrimPrefix(f[i], "+"), 10, 64); err != nil {
			return nil, fmt.Errorf("field %d: %w", i, err)
		}
	}
	if n[2] < 0 || n[2] > 65535 {
		return nil, fmt.Errorf("client port %d", n[2])
	}
	source, err := parseSource(f[14], f[15])
	if err != nil {
		return nil, err
	}
	return &ConnLine{
		Accepted: time.Unix(n[5], n[6]*int64(time.Millisecond)),
		Client:   netip.AddrPortFrom(ip.Unmap(), uint16(n[2])),
		Proxy:    f[3], Node: nodeName(f[4]),
		WaitMS: int(n[7]), DialMS: int(n[8]), AllMS: int(n[9]), Bytes: n[10],
		Term: f[11], Retries: int(n[12]), Full: n[13] >= MaxConns, Source: source,
	}, nil
}

// parseSource reads %bi and %bp, which are dashes where no server was dialled.
func parseSource(ip, port string) (netip.AddrPort, error) {
	if ip == "-" {
		return netip.AddrPort{}, nil
	}
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}

// parseServerLine knows the forms of src/server.c: "Server p/s is UP[, reason…].",
// "… is DOWN[, reason…].", "… is going DOWN for maintenance". "UP/READY
// (leaving forced maintenance)" is not one: the server has no weight then.
func parseServerLine(text string) *ServerLine {
	f := strings.Fields(text)
	if len(f) < 4 || f[2] != "is" {
		return nil
	}
	proxy, server, ok := strings.Cut(f[1], "/")
	if !ok {
		return nil
	}
	l := &ServerLine{Proxy: proxy, Node: nodeName(server)}
	switch state := strings.TrimRight(f[3], ".,"); {
	case state == "UP":
		l.Up = true
	case state == "DOWN", state == "going" && len(f) > 4 && f[4] == "DOWN":
	default:
		return nil
	}
	return l
}
