package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const operated = `package a

import "errors"

type Protocol int

const (
	TCP Protocol = 6
	UDP Protocol = 17
)

type T struct{ p, q int }

var table = []Protocol{TCP, UDP}

func (t *T) f(a, b int) (out []int, err error) {
	if a < b && b > 2 && a != 3 {
		out = append(out, a)
		return out, errors.Join(errors.New("a"), errors.New("b"))
	}
	switch {
	case t.p == 1:
		t.q++
	case a > 1:
		t.g(T{p: 1})
	}
	return append(out, a, b), nil
}

func (t *T) g(T) { t.p = 2 }

func (*T) is4(p Protocol) bool { return p == TCP }

func number(p Protocol) int {
	switch p {
	case TCP:
		return 1
	case UDP:
		return 2
	}
	return 3
}
`

// What each operator makes of a source, by name. What does not compile is left out: a
// constant that is a case twice.
func TestMutants(t *testing.T) {
	tree(t, map[string]string{"a/a.go": operated})
	src, err := load(".", "a")
	if err != nil {
		t.Fatal(err)
	}
	all, err := src.mutants(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, m := range all {
		fmt.Fprintf(&got, "%s|%d|%s\n", strings.TrimPrefix(m.Name, "a/a.go:"), m.Line, m.Change)
	}
	if diff := cmp.Diff(operations, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const operations = `table:element:1|14|[]Protocol{TCP, UDP} -> []Protocol{UDP}
table:element:2|14|[]Protocol{TCP, UDP} -> []Protocol{TCP}
table:another:1|14|TCP -> UDP
table:another:2|14|UDP -> TCP
T.f:nothing:1|17|if a < b && b > 2 && a != 3 { out = append(out, a) return out, errors.Join(errors.New("a")… -> return; if a < b && b > 2 && a != 3 { out = append(out, a) return out, errors.Join(errors.…
T.f:negate:1|17|a < b && b > 2 && a != 3 -> !(a < b && b > 2 && a != 3)
T.f:operand:1|17|a < b && b > 2 && a != 3 -> b > 2 && a != 3
T.f:operand:2|17|a < b && b > 2 && a != 3 -> a < b && a != 3
T.f:operand:3|17|a < b && b > 2 && a != 3 -> a < b && b > 2
T.f:compare:1|17|a < b -> a <= b
T.f:compare:2|17|b > 2 -> b >= 2
T.f:compare:3|17|a != 3 -> a == 3
T.f:without:1|18|out = append(out, a) -> nothing
T.f:negate:2|24|a > 1 -> !(a > 1)
T.f:case:1|22|case t.p == 1: t.q++ -> nothing
T.f:case:2|24|case a > 1: t.g(T{p: 1}) -> nothing
T.f:without:2|23|t.q++ -> nothing
T.f:compare:4|22|t.p == 1 -> t.p != 1
T.f:without:3|25|t.g(T{p: 1}) -> nothing
T.f:compare:5|24|a > 1 -> a >= 1
T.f:element:1|25|T{p: 1} -> T{}
T.f:element:2|27|append(out, a, b) -> append(out, b)
T.f:element:3|27|append(out, a, b) -> append(out, a)
T.g:nothing:1|30|t.p = 2 -> return; t.p = 2
T.g:without:1|30|t.p = 2 -> nothing
T.is4:nothing:1|32|return p == TCP -> return *new(bool); return p == TCP
T.is4:compare:1|32|p == TCP -> p != TCP
T.is4:another:1|32|TCP -> UDP
number:nothing:1|35|switch p { case TCP: return 1 case UDP: return 2 } -> return *new(int); switch p { case TCP: return 1 case UDP: return 2 }
number:case:1|36|case TCP: return 1 -> nothing
number:case:2|38|case UDP: return 2 -> nothing
`
