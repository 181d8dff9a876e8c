package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/schema"
)

func asText(t *testing.T, values ...any) (all [][]byte) {
	t.Helper()
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// What commands print for programs is as docs/schema says.
func TestSchemas(t *testing.T) {
	schema.Golden(t, *update, "list", reflect.TypeFor[[]listed](), asText(t, listedScenarios(), listedRows(), listedProfiles(), listedBehaviours())...)
	schema.Golden(t, *update, "version", reflect.TypeFor[versions](), asText(t, versions{Version: "v1"})...)
	schema.Golden(t, *update, "doctor", reflect.TypeFor[diagnosis](), asText(t, diagnose(nothingHere()), diagnose([]host.Row{}))...)
	schema.Golden(t, *update, "clusters", reflect.TypeFor[[]listedCluster](), asText(t, []listedCluster{}, []listedCluster{{"a", "/b"}})...)
}

// nothingHere is a host with long words that no cluster comes up on.
func nothingHere() []host.Row {
	long := strings.Repeat("a long word ", 12)
	return []host.Row{
		{Name: "memory available", Value: "22.9 GiB", Status: host.OK},
		{Name: "nft", Value: "not there (" + long + ")", Status: host.Missing, Do: "install it: " + long, Blocks: []string{host.Lab, host.Kind}},
		{Name: "image registry", Value: long, Status: host.Info, Do: long},
	}
}

func TestDiagnosis(t *testing.T) {
	d := diagnose(nothingHere())
	text := string(d.text(false, 80))
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"\n  > install it: a long word", "\nlab: not ready: nft\nkind: not ready: nft\nexisting: ready"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if wide := string(d.text(true, 80)); !strings.Contains(wide, "WHAT TO DO") || strings.Contains(wide, "  > ") {
		t.Errorf("wide:\n%s", wide)
	}
	var b strings.Builder
	if err := d.print(&printing{as: asJSON}, &b); err == nil || !json.Valid([]byte(b.String())) {
		t.Errorf("nothing can come up: %v, and\n%s", err, b.String())
	}
	ready := diagnose([]host.Row{{Name: "docker", Status: host.Missing, Blocks: []string{host.Kind}}})
	if err := ready.print(&printing{as: asTable}, &b); err != nil || !strings.Contains(b.String(), "\nlab: ready\n") {
		t.Errorf("a lab can come up: %v, and\n%s", err, b.String())
	}
}
