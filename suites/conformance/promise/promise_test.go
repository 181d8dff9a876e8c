package promise

import (
	"testing"

	"github.com/plumbline/plumbline/suites/conformance/cell"
)

// What is promised since a version does not hold before it, and holds where nobody knows.
func TestHolds(t *testing.T) {
	for _, tc := range []struct {
		since, version string
		want           bool
	}{
		{"1.34", "v1.34.0", true}, {"1.34", "v1.33.9", false}, {"1.34", "v1.36.3+k3s1", true}, {"1.34", "v1.9.11", false},
		{"1.34", "", true}, {"1.34", "devel", true}, {"1.100", "v1.34.0", false},
	} {
		if got := Holds(tc.since, tc.version); got != tc.want {
			t.Errorf("since %s, in %s: holds %v, want %v", tc.since, tc.version, got, tc.want)
		}
	}
	if got := Newest("1.9", "1.21"); got != "1.21" {
		t.Errorf("the newest of 1.9 and 1.21 is %s", got)
	}
}

// An exception names a document, and what it says.
func TestExceptionNamesDocument(t *testing.T) {
	for _, e := range []cell.Exception{{Says: "x"}, {Document: "https://example.com/"}, {Document: "example", Says: "x"}} {
		p := ClusterIP
		p.Over = cell.Space{Of: []cell.Value{cell.TCP}, Except: []cell.Exception{e}}
		if err := p.Check(); err == nil {
			t.Errorf("%+v passes", e)
		}
	}
	if err := ClusterIP.Check(); err != nil {
		t.Error(err)
	}
}

// A promise says over which cells it holds, or why it is about none: never neither.
func TestSpaceOrReason(t *testing.T) {
	space := cell.Space{Of: []cell.Value{cell.TCP}}
	for name, tc := range map[string]struct {
		over   cell.Space
		noPath string
		ok     bool
	}{
		"cells": {space, "", true}, "a reason": {cell.Space{}, ofHealth, true}, "both": {space, ofHealth, false}, "neither": {cell.Space{}, "", false},
	} {
		p := ClusterIP
		p.Over, p.NoPath = tc.over, tc.noPath
		if err := p.Check(); (err == nil) != tc.ok {
			t.Errorf("%s: %v, want allowed %t", name, err, tc.ok)
		}
	}
}
