package haproxy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// Running is what a process says of itself.
type Running struct {
	Version string
	Base    string // hash of its configuration, see Render
	PID     int    // of the worker, in its own pid namespace
	Servers []ServerState
}

// ServerState is one row of "show servers state" (management.txt 9.3).
type ServerState struct {
	Proxy     string
	Server    string
	Addr      netip.AddrPort
	CheckPort uint16
	Up        bool
	InService bool // not in maintenance, not drained, has a weight, is checked
	Checked   bool // had at least one check result
	Maint     bool

	since                 int // seconds
	status, result, level int // of its check
}

// Node is the node the server stands for.
func (s ServerState) Node() string { return nodeName(s.Server) }

// ID is the server's name at the socket.
func (s ServerState) ID() string { return s.Proxy + "/" + s.Server }

// NodeOf is the node that the server with this ID stands for.
func NodeOf(id string) string {
	_, server, _ := strings.Cut(id, "/")
	return nodeName(server)
}

const (
	stateHeader = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr srv_agent_port\n"
	stateFields = 25

	opRunning       = 2    // enum srv_state, SRV_ST_RUNNING
	adminMaint      = 0x27 // SRV_ADMF_{F,I,C,R}MAINT
	adminAny        = 0x3f // the same and drain
	checkInit       = 1    // HCHK_STATUS_INI; 0 would keep all results out for ever
	resultFailed    = 2    // enum chk_result, CHK_RES_FAILED
	checkFirst      = 5    // HCHK_STATUS_SOCKERR, the first value that is a result
	checkEnabled    = 4    // CHK_ST_ENABLED
	checkConfigured = 2    // CHK_ST_CONFIGURED
)

// parseServers reads the answer to "show servers state".
func parseServers(text string) ([]ServerState, error) {
	var out []ServerState
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line == "1" || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := parseServer(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("read server state %q: %w", line, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func parseServer(f []string) (ServerState, error) {
	if len(f) < stateFields {
		return ServerState{}, fmt.Errorf("%d fields, want %d", len(f), stateFields)
	}
	n := make([]int, len(f))
	for _, i := range []int{5, 6, 7, 9, 10, 11, 12, 13, 18, 21} {
		v, err := strconv.Atoi(f[i])
		if err != nil {
			return ServerState{}, fmt.Errorf("field %d: %w", i, err)
		}
		n[i] = v
	}
	addr, err := netip.ParseAddr(f[4])
	if err != nil {
		return ServerState{}, err
	}
	return ServerState{
		Proxy: f[1], Server: f[3],
		Addr:      netip.AddrPortFrom(addr.Unmap(), uint16(n[18])),
		CheckPort: uint16(n[21]),
		Up:        n[5] == opRunning && n[6]&adminMaint == 0 && n[7] > 0,
		InService: n[6]&adminAny == 0 && n[7] > 0 && n[13]&checkEnabled != 0,
		Maint:     n[6]&adminMaint != 0,
		Checked:   n[10] >= checkFirst,
		since:     n[9], status: n[10], result: n[11], level: n[12],
	}, nil
}

// StateFile is the server-state file for a process that starts with c. Every
// server starts DOWN, except those that now (if a process is to be replaced)
// is running with the same address and found UP, if by another check until this one has
// failed once.
func StateFile(c Config, now Running) string {
	known := map[string]ServerState{}
	for _, s := range now.Servers {
		known[s.ID()] = s
	}
	var b strings.Builder
	b.WriteString(stateHeader)
	for i, l := range c.LB.Listeners {
		ids := serverIDs(l)
		for _, s := range l.Servers {
			row := ServerState{Proxy: proxyName(l), Server: serverName(s.Node), Addr: s.Addr, CheckPort: c.LB.Check.Port, status: checkInit}
			if k, ok := known[row.ID()]; ok && k.InService && k.Checked && k.Addr == row.Addr {
				row.Up, row.since, row.status, row.result, row.level = k.Up, k.since, k.status, k.result, k.level
				if k.CheckPort != row.CheckPort {
					row.status, row.result = checkInit, 0
				}
			}
			writeState(&b, i+1, ids[s.Node], row)
		}
	}
	return b.String()
}

// Unheard are servers that are in use though they had no result yet, by their names: a
// check of another kind found them UP.
type Unheard map[string]bool

// UnheardOf are those of now once want replaces it, by StateFile.
func UnheardOf(now Running, want Config) Unheard {
	out := Unheard{}
	for _, s := range now.Servers {
		if s.Up && s.CheckPort != want.LB.Check.Port {
			out[s.ID()] = true
		}
	}
	return out
}

// Hear takes those off that have a result now, and returns the commands that take the failed
// ones out of use: HAProxy takes a server from its file with all checks passed, and would
// want "fall" of them to fail.
func (u Unheard) Hear(now Running) (commands []string) {
	for _, s := range now.Servers {
		id := s.ID()
		if !u[id] || !s.Checked {
			continue
		}
		delete(u, id)
		if s.Up && s.result == resultFailed {
			commands = append(commands, "set server "+id+" health down")
		}
	}
	return commands
}

func writeState(b *strings.Builder, proxy, server int, s ServerState) {
	op := 0
	if s.Up {
		op = opRunning
	}
	fmt.Fprintf(b, "%d %s %d %s %s %d 0 1 1 %d %d %d %d %d 0 0 0 - %d - 0 %d - - 0\n",
		proxy, s.Proxy, server, s.Server, s.Addr.Addr(), op, s.since, s.status, s.result, s.level,
		checkEnabled|checkConfigured, s.Addr.Port(), s.CheckPort)
}

// Expected says whether the process has a server for each one planned, all of
// them had a check result, and so the LB may be published.
func (r Running) Expected(lb lbplan.LB) bool {
	checked := map[string]bool{}
	for _, s := range r.Servers {
		checked[s.ID()] = s.Checked && s.InService
	}
	for _, l := range lb.Listeners {
		for _, s := range l.Servers {
			if !checked[proxyName(l)+"/"+serverName(s.Node)] {
				return false
			}
		}
	}
	return true
}
