package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/plumbline/plumbline/suites/report/render"
)

// sample is a type as formats have them.
type sample struct {
	Name  string            `json:"name"` // what it is called
	Word  word              `json:"word"`
	Took  render.Duration   `json:"took,omitempty"`
	Began time.Time         `json:"began,omitzero"`
	By    map[word]int      `json:"by,omitempty"`
	Parts []part            `json:"parts"`
	Left  *float64          `json:"left,omitempty"`
	Port  uint16            `json:"port,omitempty"`
	Notes map[string]string `json:"notes,omitempty"`
	Other *part             `json:"other"`
	Again *render.Duration  `json:"again,omitempty"` // of the second time

	hidden int
}

type part struct {
	N     int    `json:"n"`
	Again []part `json:"again,omitempty"`
}

// word is a verdict.
type word string

const (
	good word = "good" // nothing was lost
	bad  word = "bad"
)

func TestValidate(t *testing.T) {
	_ = []any{sample{}.hidden, good, bad}
	for text, wrong := range map[string]string{
		`{"name":"a","word":"good","other":{"n":3},"parts":[{"n":1,"again":[{"n":2}]}],"took":"2.5s","began":"2026-01-01T00:00:00Z","by":{"bad":1},"left":1.5,"port":80,"notes":{"x":"y"}}`: "",
		`{"name":"a","word":"good","other":null,"parts":[]}`:                            "",
		`{"word":"good","other":null,"parts":[]}`:                                       "name",
		`{"name":"a","word":"ugly","other":null,"parts":[]}`:                            "enum",
		`{"name":"a","word":"good","other":null,"parts":null}`:                          "array",
		`{"name":"a","word":"good","other":{"n":3},"parts":[{"n":1.5}]}`:                "integer",
		`{"name":"a","word":"good","other":{"n":3},"parts":[{"n":1,"again":[{}]}]}`:     "required",
		`{"name":"a","word":"good","other":null,"parts":[],"took":2500000000}`:          "string",
		`{"name":"a","word":"good","other":null,"parts":[],"took":"soon"}`:              "pattern",
		`{"name":"a","word":"good","other":null,"parts":[],"by":{"ugly":1}}`:            "enum",
		`{"name":"a","word":"good","other":null,"parts":[],"port":-1}`:                  "minimum",
		`{"name":"a","word":"good","other":null,"parts":[],"unheard":1}`:                "unheard",
		`{"name":"a","word":"good","other":{"n":3},"parts":[{"n":1,"unheard":"of"}]}`:   "unheard",
		`{"name":"a","word":"good","other":null,"parts":[],"notes":{"x":["not text"]}}`: "string",
	} {
		err := Validate(reflect.TypeFor[sample](), []byte(text))
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s: %v, want %q", text, err, wrong)
		}
	}
}

// What a program reads says what things are, and takes what later versions add.
func TestOf(t *testing.T) {
	s, err := Of(reflect.TypeFor[sample](), false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		`"description":"sample is a type as formats have them."`, `"description":"what it is called"`,
		`"enum":["good","bad"]`, `"description":"of the second time; such as 2.5s or 1m0s"`, `word is a verdict.\ngood: nothing was lost`, `"required":["name","word","parts","other"]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(map[string]any{"name": "a", "word": "good", "other": nil, "parts": []any{}, "later": true}); err != nil {
		t.Errorf("a field of a later version: %v", err)
	}
}

// A type that cannot be described is an error, not a gap.
func TestOfRefuses(t *testing.T) {
	for _, c := range []struct {
		of   reflect.Type
		want string
	}{
		{reflect.TypeFor[struct {
			F func() `json:"f"`
		}](), "field F"},
		{reflect.TypeFor[struct{ NoTag int }](), "no name in JSON"},
		{reflect.TypeFor[struct {
			Any any `json:"any"`
		}](), "field Any"},
		{reflect.TypeFor[struct {
			At itself `json:"at"`
		}](), "wellKnown"},
		{reflect.TypeFor[struct {
			At *byPointer `json:"at"`
		}](), "wellKnown"},
		{reflect.TypeFor[struct {
			Raw []byte `json:"raw"`
		}](), "field Raw"},
	} {
		if _, err := Of(c.of, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.of, err, c.want)
		}
	}
}

type byPointer struct{}

func (*byPointer) MarshalJSON() ([]byte, error) { return nil, nil }

type itself struct{}

func (itself) MarshalText() ([]byte, error) { return nil, nil }

// Definitions go by the name of package and type: two packages of one name are told apart.
func TestNamesClash(t *testing.T) {
	m := maker{source: source{}, defs: map[string]*jsonschema.Schema{}, named: map[string]reflect.Type{"schema.part": reflect.TypeFor[itself]()}}
	if _, err := m.schema(reflect.TypeFor[part]()); err == nil || !strings.Contains(err.Error(), "the same name") {
		t.Errorf("another type of that name: %v", err)
	}
}
