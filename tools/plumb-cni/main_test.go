package main

import (
	"bytes"
	"strings"
	"testing"
)

// What it cannot work with is one line and exit status 2, before anything of the node is touched.
func TestCalls(t *testing.T) {
	good := map[string]string{"NODE_NAME": "worker", "POD_SUBNET": "10.244.0.0/16,fd00:10:244::/56", "CONTROL_PLANE_ENDPOINT": "172.28.0.2:6443"}
	for _, tc := range []struct {
		args, key, value string
		code             int
		stdout, stderr   string
	}{
		{args: "--help", stdout: "usage: plumb-cni\n"},
		{args: "--version", stdout: "plumb-cni "},
		{args: "up", code: 2, stderr: `plumb-cni: unexpected argument "up"`},
		{args: "--node=x", code: 2, stderr: "plumb-cni: flag provided but not defined: -node; see plumb-cni --help"},
		{key: "NODE_NAME", code: 2, stderr: "plumb-cni: NODE_NAME is not set"},
		{key: "POD_SUBNET", code: 2, stderr: "plumb-cni: read POD_SUBNET: "},
		{key: "POD_SUBNET", value: "10.244.0.0/16;x", code: 2, stderr: "plumb-cni: read POD_SUBNET: "},
		{key: "CONTROL_PLANE_ENDPOINT", value: "172.28.0.2", code: 2, stderr: "plumb-cni: read CONTROL_PLANE_ENDPOINT: "},
	} {
		env := func(key string) string {
			if key == tc.key {
				return tc.value
			}
			return good[key]
		}
		var stdout, stderr bytes.Buffer
		code := run(strings.Fields(tc.args), env, &stdout, &stderr) // none comes as far as the agent
		if code != tc.code || !strings.HasPrefix(stdout.String(), tc.stdout) || !strings.HasPrefix(stderr.String(), tc.stderr) || strings.Count(stderr.String(), "\n") != min(code, 1) || code != 0 && stdout.Len() > 0 {
			t.Errorf("%+v: exit %d, %q, %q", tc, code, &stdout, &stderr)
		}
	}
	if s, err := read(nil, func(key string) string { return good[key] }); err != nil || s.node != "worker" || len(s.subnets) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}
