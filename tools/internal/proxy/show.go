package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/listing"
	"github.com/plumbline/plumbline/tools/internal/call"
)

const showUsage = `plumb-proxy show services|backends|path FRONTEND [flags]

services   every frontend with its backends
backends   every backend with the frontends that use it
           (a frontend in state refused is not as listed: the kernel did not take
           it; one in state missing is not there, though it was applied;
           services --json says why)
path       the way a packet takes to a frontend, as the kernel has it:
           10.96.0.1:443/TCP, tcp://10.96.0.1:443, node:30080/UDP

`

// question is what show asks of the agent on this node.
type question struct {
	what     string
	frontend string // of path
	agent    string
	json     bool
}

// parseShow reads what follows `plumb-proxy show`. Flags may stand anywhere.
func parseShow(args []string) (question, error) {
	var q question
	fs := call.Flags("plumb-proxy show")
	fs.StringVar(&q.agent, "debug-socket", agent.DebugSocket, "`socket` of the agent, as it was given to it")
	fs.BoolVar(&q.json, "json", false, "services as JSON")
	var words []string
	for {
		if err := call.Parse(fs, showUsage, args); err != nil {
			return q, err
		}
		if fs.NArg() == 0 {
			return q, q.check(words)
		}
		words, args = append(words, fs.Arg(0)), fs.Args()[1:]
	}
}

func (q *question) check(words []string) error {
	if len(words) == 0 || !slices.Contains([]string{"services", "backends", "path"}, words[0]) {
		return fmt.Errorf("show %s: give services, backends or path", strings.Join(words, " "))
	}
	q.what = words[0]
	wanted := 1
	if q.what == "path" {
		wanted = 2
	}
	switch {
	case len(words) > wanted:
		return fmt.Errorf("show %s: unexpected argument %q", q.what, words[wanted])
	case len(words) < wanted:
		return errors.New("show path: give a frontend such as 10.96.0.1:443/TCP")
	case q.json && q.what != "services":
		return errors.New("show: --json is for services")
	case !abstractSocket(q.agent):
		return badSocket(q.agent)
	}
	if q.what == "path" {
		q.frontend = words[1]
		_, err := listing.ParseKey(q.frontend)
		return err
	}
	return nil
}

// ask prints the agent's answer.
func (q question) ask(ctx context.Context, out io.Writer) error {
	if q.what == "path" {
		text, err := q.get(ctx, agent.PathPath+"?frontend="+url.QueryEscape(q.frontend))
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	text, err := q.get(ctx, agent.ServicesPath)
	if err != nil {
		return err
	}
	if q.json {
		_, err = out.Write(text)
		return err
	}
	var all []listing.Frontend
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read the answer of the agent at %s: %w", q.agent, err)
	}
	if q.what == "backends" {
		return printBackends(out, all)
	}
	return printServices(out, all)
}

func (q question) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "unix", q.agent)
		if err != nil {
			return nil, err
		}
		if err := agent.Trusted(c); err != nil { // everybody may take a name
			return nil, errors.Join(fmt.Errorf("somebody else answers: %w", err), c.Close())
		}
		return c, nil
	}
	client := http.Client{Timeout: agent.WriteWithin, Transport: &http.Transport{DialContext: dial}}
	answer, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the agent at %s: %w; is plumb-proxy running on this node?", q.agent, errors.Unwrap(err))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of the agent at %s: %w", q.agent, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(string(text)))
	}
	return text, nil
}

// printServices is a table with a line for each backend, after the manner of
// `cilium service list`.
func printServices(out io.Writer, all []listing.Frontend) error {
	rows := [][]string{{"ID", "FRONTEND", "TYPE", "BACKENDS", "STATE", "SERVICE"}}
	for _, f := range all {
		first := []string{fmt.Sprint(f.ID), f.Frontend, f.Type, "-", f.State, f.Service}
		for i, b := range f.Backends {
			row := make([]string, len(first))
			if i == 0 {
				row = first
			}
			row[3] = fmt.Sprintf("%d => %s (%s)", i+1, b.Address, marks(b))
			rows = append(rows, row)
		}
		if len(f.Backends) == 0 {
			rows = append(rows, first)
		}
	}
	return table(out, rows)
}

func marks(p listing.Placement) string {
	marks := []string{p.State}
	if p.Local {
		marks = append(marks, "local")
	}
	if p.For != "" {
		marks = append(marks, p.For)
	}
	return strings.Join(marks, ", ")
}

// printBackends is a table with a line for each use of a backend.
func printBackends(out io.Writer, all []listing.Frontend) error {
	type backend struct {
		at   netip.AddrPort
		text string
	}
	uses := map[backend][][]string{}
	for _, f := range all {
		_, protocol, _ := strings.Cut(f.Frontend, "/")
		for _, b := range f.Backends {
			at, err := netip.ParseAddrPort(b.Address)
			if err != nil {
				return fmt.Errorf("read the answer of the agent: %w", err)
			}
			key := backend{at, b.Address + "/" + protocol}
			uses[key] = append(uses[key], []string{"", marks(b), f.Frontend, f.Service})
		}
	}
	keys := make([]backend, 0, len(uses))
	for k := range uses {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b backend) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	rows := [][]string{{"BACKEND", "STATE", "FRONTEND", "SERVICE"}}
	for _, k := range keys {
		uses[k][0][0] = k.text
		rows = append(rows, uses[k]...)
	}
	return table(out, rows)
}

func table(out io.Writer, rows [][]string) error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}
