package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEmpty(t *testing.T) {
	type inner struct {
		Name string    `json:"name"`
		At   time.Time `json:"at"`
	}
	type outer struct {
		Text    string `json:"text,omitempty"`
		Flag    bool   `json:"flag"`
		Count   int    `json:"count"`
		List    []int  `json:"list"`
		Inner   inner  `json:"inner"`
		To      *inner `json:"to"`
		Nowhere *inner `json:"nowhere"`
		private int
	}
	for _, tc := range []struct {
		in   any
		want []string
	}{
		{outer{}, []string{""}},
		{&outer{Text: "x", private: 1}, []string{"count", "list", "inner", "to", "nowhere"}},
		{outer{List: []int{}, Count: 1, Inner: inner{Name: "x"}, To: &inner{At: time.Unix(1, 0)}}, []string{"text", "list", "inner.at", "to.name", "nowhere"}},
		{inner{"x", time.Unix(1, 0)}, nil},
	} {
		if d := cmp.Diff(tc.want, Empty(tc.in)); d != "" {
			t.Errorf("%+v (-want +got):\n%s", tc.in, d)
		}
	}
}
