package tape

import (
	"compress/gzip"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/verdict"
)

func recorded(t *testing.T) (string, verdict.Input) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "row", "rollout-01")
	in := verdict.Input{
		Stream:   record.Main,
		Settings: verdict.Settings{Rollout: 1, Rate: 100, Timeout: 2500 * time.Millisecond, Deadline: 10 * time.Second, Nodes: []string{"n1"}, LB: "ns/echo", Local: true},
		Attempts: []record.Attempt{{Stream: record.Main, Seq: 1, Src: netip.MustParseAddrPort("10.0.0.1:4000"), Phase: record.PhaseDone}, {Stream: record.Main, Seq: 2, Phase: record.PhaseDial}},
		Control:  []record.Attempt{{Stream: record.Control, Seq: 1}},
		Events:   []record.Event{{At: 1, Kind: record.KindAct, State: "restart"}, {At: 2, Kind: record.KindServer, State: "UP", Node: "n1"}},
		Conns:    []record.Conn{{At: 3, Server: "n1", Source: netip.MustParseAddrPort("10.0.0.2:5000")}},
		Packets:  []record.Packet{{At: 4, Node: "n1", In: true, Src: netip.MustParseAddrPort("10.0.0.2:5000"), Flags: "S"}},
	}
	tape, err := Create(dir, in.Settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range append(in.Control, in.Attempts...) {
		tape.Attempt(a)
	}
	tape.Event(in.Events[0])
	tape.Balancer(in.Events[1:], in.Conns)
	tape.Packet(in.Packets[0])
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, in
}

func TestReadsWhatWasRecorded(t *testing.T) {
	dir, want := recorded(t)
	for _, what := range []string{"as it was", "compressed"} {
		got, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]verdict.Input{want}, got, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
			t.Errorf("%s (-recorded +read):\n%s", what, diff)
		}
		compress(t, dir)
	}
}

// Each stream is judged by itself, in its own family; what else is known both have.
func TestReadsEachStream(t *testing.T) {
	dir := t.TempDir()
	tape, err := Create(dir, verdict.Settings{Rollout: 1}, Stream{record.Main, record.IPv4}, Stream{record.Second, record.IPv6})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []record.Stream{record.Main, record.Second, record.Second, record.Control} {
		tape.Attempt(record.Attempt{Stream: s})
	}
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d streams, %v", len(got), err)
	}
	for i, want := range []struct {
		family record.Family
		n      int
	}{{record.IPv4, 1}, {record.IPv6, 2}} {
		if got[i].Settings.Family != want.family || len(got[i].Attempts) != want.n || len(got[i].Control) != 1 {
			t.Errorf("stream %d: %+v", i, got[i])
		}
	}
}

func compress(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(path + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(out)
		if _, err := z.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadSaysWhatItLacks(t *testing.T) {
	for _, tc := range []struct{ name, write, want string }{
		{rolloutFile, "", rolloutFile},
		{rolloutFile, `{"schema":"other/v1"}`, "it is no " + Schema + " file"},
		{requestsFile, "", requestsFile},
		{eventsFile, "{\n", eventsFile + ": line 1"},
		{connsFile, "", connsFile},
	} {
		dir, _ := recorded(t)
		path := filepath.Join(dir, tc.name)
		err := os.Remove(path)
		if tc.write != "" {
			err = os.WriteFile(path, []byte(tc.write), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestCreateWhereNothingCanBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(filepath.Join(file, "rollout-01"), verdict.Settings{}); err == nil {
		t.Error("a recording below a file")
	}
}
