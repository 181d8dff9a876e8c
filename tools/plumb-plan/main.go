// Command plumb-plan says what a dataplane would do, without a cluster, a kernel
// or any right: it reads Kubernetes objects as YAML and prints the plan of one
// node, the rules of a backend, or what becomes of a packet.
//
//	kubectl get services,endpointslices,nodes,servicecidrs -A -o yaml | plumb-plan --node worker -
//	plumb-plan --render nftables objects.yaml | nft -c -f -
//	plumb-plan --render iptables objects.yaml | iptables-restore --test --noflush
//	plumb-plan --resolve 10.244.1.5,tcp,10.96.0.1:80 objects.yaml
//
// It knows only what the objects say: of the node's addresses those in its Node.
// What of an object cannot be used is a warning, and all the rest is planned, as
// the agents do. Objects of other kinds are left out and counted.
// The exit status is 0, 1 if the file cannot be read, and 2 if the call or the
// content is not right.
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/planflags"
	"github.com/plumbline/plumbline/tools/internal/call"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// renderers are the forms that a plan's rules can be printed in: what a tool takes, or the
// backend's own words where there is no such tool.
func renderers() map[string]func(*plan.Plan) string {
	out := map[string]func(*plan.Plan) string{}
	for name, b := range backend.All(0) {
		maps.Copy(out, b.Scripts)
		if len(b.Scripts) == 0 {
			out[name] = b.Render
		}
	}
	return out
}

func rendererNames() string {
	return strings.Join(slices.Sorted(maps.Keys(renderers())), ", ")
}

type options struct {
	plan    plan.Options
	render  string
	resolve *plan.Packet // nil: not asked
	file    string
}

// unreadable is a file that cannot be read, as against one that is not right.
type unreadable struct{ error }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := act(args, stdin, stdout, stderr)
	var file unreadable
	if errors.As(err, &file) {
		fmt.Fprintf(stderr, "plumb-plan: %v\n", err)
		return call.Failed
	}
	return call.Exit("plumb-plan", err, stdout, stderr)
}

func act(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	opt, err := parse(args)
	if err != nil {
		return err
	}
	text, err := read(opt.file, stdin)
	if err != nil {
		return err
	}
	snap, said, err := decode(text, &opt.plan.Node)
	var unusable *objects.Unusable
	if err == nil || errors.As(err, &unusable) {
		for _, line := range said {
			fmt.Fprintf(stderr, "plumb-plan: %s: %s\n", opt.file, line)
		}
	}
	switch {
	case unusable != nil:
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(stderr, "plumb-plan: warning: %s: %s\n", opt.file, strings.TrimSpace(line))
		}
	case err != nil:
		return fmt.Errorf("%s: %w", opt.file, err)
	}
	p := plan.Build(snap, opt.plan)
	out := p.String()
	switch {
	case opt.resolve != nil:
		if out, err = resolve(snap, p, *opt.resolve); err != nil {
			return err
		}
	case opt.render != "":
		out = renderers()[opt.render](p)
	}
	if _, err := io.WriteString(stdout, out); err != nil {
		return unreadable{fmt.Errorf("print: %w", err)}
	}
	return nil
}

func parse(args []string) (options, error) {
	var o options
	var node string
	fs := call.Flags("plumb-plan")
	fs.StringVar(&node, "node", "", "`name` of the node whose plan it is (default: that of the only Node in the file)")
	plans := planflags.Register(fs)
	sctp := fs.Bool("sctp", false, "as on a kernel that has SCTP")
	sockets := fs.Bool("sockets", false, "as of a backend that translates at sockets what begins on the node: by itself, and in its podCIDRs")
	fs.StringVar(&o.render, "render", "", "print the rules instead of the plan, in a `form`: "+rendererNames()+". nft -c -f -, iptables-restore --test --noflush and ip6tables-restore take theirs")
	asked := fs.String("resolve", "", "print what becomes of a `packet` instead of the plan: FROM,PROTOCOL,ADDRESS:PORT, where FROM is an address (and %LINK, by which it comes, if --detect-local is about links) or node")
	if err := call.Parse(fs, "plumb-plan [flags] FILE|-", args); err != nil {
		return o, err
	}
	var err error
	if o.plan, err = plans.Options(); err != nil {
		return o, err
	}
	o.plan.Node, o.plan.SCTP, o.plan.Sockets = node, *sctp, *sockets
	switch {
	case fs.NArg() != 1:
		return o, errors.New("give one file of YAML objects, or - for standard input; see plumb-plan --help")
	case o.render != "" && renderers()[o.render] == nil:
		return o, fmt.Errorf("--render %q: there is no such form; one of: %s", o.render, rendererNames())
	case o.render != "" && *asked != "":
		return o, errors.New("--render and --resolve contradict each other; give one")
	}
	if *asked != "" {
		pkt, err := packet(*asked)
		if err != nil {
			return o, err
		}
		o.resolve = &pkt
	}
	o.file = fs.Arg(0)
	return o, nil
}

func read(file string, stdin io.Reader) ([]byte, error) {
	text, err := []byte(nil), error(nil)
	if file == "-" {
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, unreadable{fmt.Errorf("read objects: %w", err)}
	}
	return text, nil
}
