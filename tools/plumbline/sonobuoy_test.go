package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// TestSonobuoyInPod runs what the plugin's definition says where it says so: from the
// root of an image, as the pod's service account. The API knows it, and refuses
// everything else.
func TestSonobuoyInPod(t *testing.T) {
	need.Root(t)
	need.Static(t)
	var asked, token string
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}`)
			return
		}
		asked, token = r.URL.Path, r.Header.Get("Authorization")
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer api.Close()
	host, port, err := net.SplitHostPort(api.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	account := filepath.Join(root, "var/run/secrets/kubernetes.io/serviceaccount")
	err = errors.Join(
		os.MkdirAll(account, 0o755), os.MkdirAll(filepath.Join(root, conformance.SonobuoyResults), 0o777),
		os.WriteFile(filepath.Join(account, "token"), []byte("sesame"), 0o600),
		os.WriteFile(filepath.Join(account, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "plumbline"), self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := pluginCommand(t, "--ip-family=ipv4")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: root}
	cmd.Env = append(cmd.Env, "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	said, code := outcome(t, cmd)
	if code != 2 || !strings.Contains(said, "look for runs in cluster in-cluster") {
		t.Errorf("exit status %d, want 2, for the namespaces were refused:\n%s", code, said)
	}
	if asked != "/api/v1/namespaces" || token != "Bearer sesame" {
		t.Errorf("it asked for %q with %q", asked, token)
	}
	delivered(t, root, conformance.SonobuoyResults, "look for runs in cluster in-cluster")
}

// TestSonobuoyEndsEarly: whatever keeps the suite from its work, the worker is told.
func TestSonobuoyEndsEarly(t *testing.T) {
	for name, tc := range map[string]struct {
		flags []string
		code  int
		want  string
	}{
		"a flag nobody knows":  {[]string{"--no-such-flag"}, 2, "unknown flag: --no-such-flag"},
		"help":                 {[]string{"-h"}, 0, "help was asked for, and no behaviour"},
		"an argument":          {[]string{"now"}, 2, `unexpected argument "now"`},
		"a value nobody knows": {[]string{"--lb=elb"}, 2, `unknown --lb "elb"`},
		"no API":               {[]string{"--kubeconfig=nowhere"}, 2, "read kubeconfig nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			results := t.TempDir()
			cmd := pluginCommand(t, append([]string{"--results=" + results}, tc.flags...)...)
			cmd.Env = append(cmd.Env, "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=1")
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Path, cmd.Err = self, nil // argv[0] says that it is to be the program
			if said, code := outcome(t, cmd); code != tc.code || !strings.Contains(said, tc.want) && code != 0 {
				t.Errorf("exit status %d, want %d and %q:\n%s", code, tc.code, tc.want, said)
			}
			if log := delivered(t, "/", results, tc.want)[conformance.LogFile]; !strings.Contains(log, tc.want) {
				t.Errorf("%s does not say %q:\n%s", conformance.LogFile, tc.want, log)
			}
		})
	}
}

// pluginCommand is what a plugin's definition with further flags runs.
func pluginCommand(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	text, err := conformance.Plugin("registry.example/plumb-conformance:v1", flags...)
	if err != nil {
		t.Fatal(err)
	}
	var plugin struct{ Spec corev1.Container }
	if err := yaml.Unmarshal([]byte(text), &plugin); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), plugin.Spec.Command[0], plugin.Spec.Args...)
	for _, e := range plugin.Spec.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	return cmd
}

func outcome(t *testing.T, cmd *exec.Cmd) (said string, code int) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// delivered does what Sonobuoy's worker does with the done file in results, below a
// root, and Sonobuoy with the archive that it names; want is in its JUnit, if anything
// is, as what is red.
func delivered(t *testing.T, root, results, want string) map[string]string {
	t.Helper()
	done, err := os.ReadFile(filepath.Join(root, results, "done"))
	if err != nil {
		t.Fatal(err)
	}
	if string(done) != results+"/plumbline.tar.gz" {
		t.Fatalf("done says %q", done)
	}
	f, err := os.Open(filepath.Join(root, string(done)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(text)
	}
	x := files[conformance.JUnitFile]
	if red := strings.Contains(x, "<error "); x == "" || red != (want != "") || !strings.Contains(strings.ReplaceAll(x, "&#34;", `"`), want) {
		t.Errorf("%s does not say %q:\n%s", conformance.JUnitFile, want, x)
	}
	return files
}
