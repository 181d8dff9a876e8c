package main

import (
	"os"

	"github.com/plumbline/plumbline/dataplane/others"
	"github.com/plumbline/plumbline/fixtures/cgroup"
	"github.com/plumbline/plumbline/fixtures/host"
)

// beside is what others have on this host that a dataplane meets here: what drops forwarded packets, and
// what runs at the sockets of a lab's nodes, whose cgroups are below this process's own.
func beside() []host.Beside {
	forward := host.Beside{Name: "forward policy", None: "nothing is dropped that no rule accepts",
		Do: "a dataplane of this host itself, such as plumb-ebpf, needs rules there that accept what it forwards; nodes of labs and of kind have network namespaces of their own"}
	sockets := host.Beside{Name: "programs at sockets", None: "none that clusters here would be in",
		Do: "they run at the sockets of nodes that are made here too, after plumb-ebpf's programs, and may deny calls or replace addresses"}
	if os.Geteuid() != 0 {
		return []host.Beside{forward, sockets}
	}
	forward.Looked, sockets.Looked = true, true
	forward.Found, forward.Err = others.ForwardDrops(others.Config{})
	sockets.Found, sockets.Err = programsHere()
	return []host.Beside{forward, sockets}
}

func programsHere() ([]string, error) {
	group, err := cgroup.Of(os.Getpid())
	if err != nil {
		return nil, err
	}
	own, above, err := others.AtSockets(group.Path())
	return append(own, above...), err
}
