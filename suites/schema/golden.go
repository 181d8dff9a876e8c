package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Dir is where the schemas are, from the root of the repository.
const Dir = "docs/schema"

// Golden holds docs/schema/NAME.schema.json against a type, or writes it anew, and each sample
// against both: a sample has no field that the schema does not describe.
func Golden(t *testing.T, update bool, name string, of reflect.Type, samples ...[]byte) {
	t.Helper()
	open, err := Of(of, false)
	if err != nil {
		t.Fatal(err)
	}
	open.Title = name
	want, err := json.MarshalIndent(open, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, Dir, name+".schema.json")
	if update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s is not that of %s (-want +got; -update writes it):\n%s", path, of, d)
	}
	if len(samples) == 0 {
		t.Errorf("%s: no sample is held against it", name)
	}
	for i, s := range samples {
		if err := Validate(of, s); err != nil {
			t.Errorf("%s, sample %d: %v", name, i, err)
		}
	}
}

// Validate holds JSON against a type's strict schema.
func Validate(of reflect.Type, text []byte) error {
	s, err := Of(of, true)
	if err != nil {
		return err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return fmt.Errorf("schema of %s: %w", of, err)
	}
	var v any
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&v); err != nil {
		return fmt.Errorf("read the sample: %w", err)
	}
	return resolved.Validate(v)
}
