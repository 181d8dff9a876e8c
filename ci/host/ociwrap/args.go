//go:build linux

package main

import (
	"path/filepath"
	"strings"
)

// Options that take a value in the next argument; the value must not be taken
// for the command. From runc(8), runc-create(8), runc-run(8), runc-exec(8).
var valued = map[string]bool{
	"root": true, "log": true, "log-format": true, "criu": true, "rootless": true,
	"bundle": true, "b": true, "process": true, "p": true,
	"console-socket": true, "pidfd-socket": true, "pid-file": true, "preserve-fds": true,
	"cwd": true, "env": true, "e": true, "user": true, "u": true, "additional-gids": true, "g": true,
	"process-label": true, "apparmor": true, "cap": true, "c": true, "cgroup": true,
}

// fileToEdit says which file a runc command line reads the process from, and
// where in it the process lies. An empty path means: nothing to edit.
func fileToEdit(args []string) (path string, field []string) {
	command := ""
	options := map[string]string{}
	for i := 0; i < len(args); i++ {
		name, value, isOption := option(args[i])
		switch {
		case !isOption && command == "":
			command = args[i]
		case !isOption: // the container's id; what follows is the container's own
			i = len(args)
		case value == "" && valued[name] && !strings.Contains(args[i], "=") && i+1 < len(args):
			i++
			options[name] = args[i]
		default:
			options[name] = value
		}
	}
	switch command {
	case "create", "run":
		return filepath.Join(first(options["bundle"], options["b"], "."), "config.json"), []string{"process"}
	case "exec":
		return first(options["process"], options["p"]), nil
	}
	return "", nil
}

func option(arg string) (name, value string, ok bool) {
	if len(arg) < 2 || arg[0] != '-' {
		return "", "", false
	}
	name, value, _ = strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name, value, true
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
