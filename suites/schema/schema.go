// Package schema writes the JSON Schemas (draft 2020-12) of what Plumbline gives to programs,
// from the Go types that are written: names from their tags, descriptions from their comments,
// enumerations from the constants of a type. The files are docs/schema; each package whose types
// are public holds them there by a test (Golden).
package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema" // the one library that both describes and validates

	"github.com/plumbline/plumbline/suites/report/render"
)

// Draft is the version of JSON Schema that is written.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// Of describes a type as encoding/json writes it. A field that is never left out is required. Strict
// takes no field that is not described: for what this version writes. Others are to take them, since
// a format may get fields without a new version.
func Of(t reflect.Type, strict bool) (*jsonschema.Schema, error) {
	m := maker{source: source{}, defs: map[string]*jsonschema.Schema{}, named: map[string]reflect.Type{}, strict: strict}
	s, err := m.schema(t)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", t, err)
	}
	s.Schema, s.Defs = Draft, m.defs
	return s, nil
}

// maker describes one type and all that it is made of.
type maker struct {
	source source
	defs   map[string]*jsonschema.Schema
	named  map[string]reflect.Type // what they are of
	strict bool
}

// wellKnown are types that say themselves how they are written.
var wellKnown = map[reflect.Type]jsonschema.Schema{
	reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	reflect.TypeFor[time.Duration]():   {Type: "integer", Description: "nanoseconds"},
	reflect.TypeFor[render.Duration](): {Type: "string", Pattern: `^-?([0-9.]+(ns|µs|ms|s|m|h))+$`, Description: "such as 2.5s or 1m0s"},
	reflect.TypeFor[netip.AddrPort]():  {Type: "string", Description: "address:port; empty: not known"},
	reflect.TypeFor[json.RawMessage](): {},
}

func (m maker) schema(t reflect.Type) (*jsonschema.Schema, error) {
	if t.Kind() == reflect.Pointer {
		return m.schema(t.Elem())
	}
	if known, ok := wellKnown[t]; ok {
		return known.CloneSchemas(), nil
	}
	if at := reflect.PointerTo(t); at.Implements(reflect.TypeFor[json.Marshaler]()) || at.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return nil, fmt.Errorf("%s writes itself: say how in wellKnown", t)
	}
	switch t.Kind() {
	case reflect.Struct:
		return m.object(t)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			break // base64, or numbers
		}
		items, err := m.schema(t.Elem())
		return &jsonschema.Schema{Type: "array", Items: items}, err
	case reflect.Map:
		return m.mapped(t)
	case reflect.String:
		return m.text(t)
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}, nil
	case reflect.Float64, reflect.Float32:
		return &jsonschema.Schema{Type: "number"}, nil
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		return &jsonschema.Schema{Type: "integer"}, nil
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		return &jsonschema.Schema{Type: "integer", Minimum: new(float64)}, nil
	}
	return nil, fmt.Errorf("%s has no form in JSON that programs could rely on", t)
}

func (m maker) mapped(t reflect.Type) (*jsonschema.Schema, error) {
	keys, err := m.schema(t.Key())
	if err != nil {
		return nil, err
	}
	values, err := m.schema(t.Elem())
	out := &jsonschema.Schema{Type: "object", AdditionalProperties: values}
	if keys.Enum != nil || keys.Ref != "" {
		out.PropertyNames = keys
	}
	return out, err
}

// text is a string, one of the constants of its type where it has any.
func (m maker) text(t reflect.Type) (*jsonschema.Schema, error) {
	if t.PkgPath() == "" {
		return &jsonschema.Schema{Type: "string"}, nil
	}
	pkg, err := m.source.of(t)
	if err != nil {
		return nil, err
	}
	values := pkg.constants[t.Name()]
	if len(values) == 0 {
		return &jsonschema.Schema{Type: "string"}, nil
	}
	return m.define(t, func(s *jsonschema.Schema) error {
		s.Type = "string"
		for _, v := range values {
			s.Enum = append(s.Enum, v.value)
			if v.says != "" {
				s.Description += "\n" + v.value + ": " + v.says
			}
		}
		return nil
	})
}

// define gives a named type its place among the definitions, once, and refers to it.
func (m maker) define(t reflect.Type, fill func(*jsonschema.Schema) error) (*jsonschema.Schema, error) {
	pkg, err := m.source.of(t)
	if err != nil {
		return nil, err
	}
	name := t.String()
	if was := m.named[name]; was != nil && was != t {
		return nil, fmt.Errorf("%s and %s.%s go by the same name", was.PkgPath(), t.PkgPath(), t.Name())
	}
	m.named[name] = t
	if m.defs[name] == nil {
		s := &jsonschema.Schema{Description: pkg.types[t.Name()]}
		m.defs[name] = s
		if err := fill(s); err != nil {
			return nil, err
		}
	}
	return &jsonschema.Schema{Ref: "#/$defs/" + name}, nil
}

func (m maker) object(t reflect.Type) (*jsonschema.Schema, error) {
	if t.Name() == "" {
		s := &jsonschema.Schema{}
		return s, m.fields(t, s)
	}
	return m.define(t, func(s *jsonschema.Schema) error { return m.fields(t, s) })
}

func (m maker) fields(t reflect.Type, s *jsonschema.Schema) error {
	s.Type, s.Properties = "object", map[string]*jsonschema.Schema{}
	if m.strict {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-" || len(f.Index) > 1:
			continue
		case f.Anonymous || name == "":
			return fmt.Errorf("field %s of %s has no name in JSON", f.Name, t)
		}
		of, err := m.schema(f.Type)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		optional := slices.ContainsFunc(strings.Split(options, ","), func(o string) bool { return o == "omitempty" || o == "omitzero" })
		if !optional {
			s.Required = append(s.Required, name)
			if f.Type.Kind() == reflect.Pointer {
				of = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{of, {Type: "null"}}}
			}
		}
		if says, err := m.source.field(t, f.Name); err != nil {
			return err
		} else if says != "" && of.Description != "" {
			of.Description = says + "; " + of.Description
		} else if says != "" {
			of.Description = says
		}
		s.Properties[name] = of
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	return nil
}
