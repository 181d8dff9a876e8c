package tape

import (
	"bytes"
	"flag"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/schema"
)

var update = flag.Bool("update", false, "write the schemas of the records anew")

// What is kept of a rollout is as docs/schema says, by rollouts that a lab has recorded.
func TestSchemas(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("..", "run", "testdata", "*", "*", "rollout-*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recorded rollouts: %v", err)
	}
	read := func(name string) (all [][]byte) {
		for _, dir := range dirs {
			b, err := contents(dir, name)
			if err != nil {
				continue // not every rollout has packets
			}
			all = append(all, b)
		}
		return all
	}
	schema.Golden(t, *update, "rollout", reflect.TypeFor[rollout](), read(rolloutFile)...)
	var anchors [][]byte
	for _, c := range []struct {
		name  string
		of    reflect.Type
		files []string
	}{
		{"attempt", reflect.TypeFor[record.Attempt](), []string{requestsFile}},
		{"event", reflect.TypeFor[record.Event](), []string{eventsFile, lbEventsFile}},
		{"conn", reflect.TypeFor[record.Conn](), []string{connsFile}},
		{"packet", reflect.TypeFor[record.Packet](), []string{packetsFile}},
	} {
		var some [][]byte
		for _, file := range c.files {
			for _, text := range read(file) {
				lines := bytes.SplitN(text, []byte("\n"), 100)
				anchors = append(anchors, lines[0])
				some = append(some, lines[1:len(lines)-1]...)
			}
		}
		schema.Golden(t, *update, c.name, c.of, some...)
	}
	schema.Golden(t, *update, "anchor", reflect.TypeFor[record.Anchor](), anchors...)
}
