package main

import (
	"strings"
	"testing"
)

// Each survivor that the table names has a reason, nothing else has, and each reason a mutant that there is.
func TestReasons(t *testing.T) {
	t.Chdir("../..")
	why, err := readReasons(reasonsFile)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := readTable(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]string{}
	for _, target := range targets {
		src, err := load(".", target.folder)
		if err != nil {
			t.Fatal(err)
		}
		all, err := src.changes(target.files)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			there[m.Name] = m.Change
		}
	}
	for name, r := range why.rows {
		if there[name] != r.Change {
			t.Errorf("%s: a reason for a mutant that is not there: %s has %q, the source %q", name, reasonsFile, r.Change, there[name])
		}
	}
	for name, r := range kept.rows {
		if _, explained := why.rows[name]; explained != (r.Verdict == survived) && there[name] == r.Change {
			t.Errorf("%s, %s: %s, a line in %s: %t", name, r.Change, r.Verdict, reasonsFile, explained)
		}
	}
}

func TestFilesRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "reasons", reasonsHead+"\na\tb\tmaybe\tc\n")
	if _, err := readReasons("reasons"); err == nil || !strings.Contains(err.Error(), "reasons:2: want same or open") {
		t.Errorf("it says: %v", err)
	}
	for text, says := range map[string]string{
		tableHead + "\na\tb\n":                "table:2: 2 fields, want 7",
		tableHead + "\na\tb\tc\td\te\tf\tg\n": "table:2: ",
		"else\ta\tb\tc\td\te\tf\n":            "table:1: want",
	} {
		write(t, "table", text)
		if _, err := readTable("table"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q says: %v", text, err)
		}
	}
}
