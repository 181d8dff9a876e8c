package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// The operators, by the names that mutants have of them.
const (
	negate  = "negate"  // a condition
	operand = "operand" // one of && or || is dropped
	compare = "compare" // == and !=, < and <=, > and >= change places
	element = "element" // one of a list, of a struct's fields, or of what is appended is dropped
	branch  = "case"    // of a switch, is dropped
	another = "another" // constant of the same type, protocol or family
	without = "without" // a call or an assignment
	nothing = "nothing" // is done by a function: it returns zero values
)

// node makes the mutants of one node; ast.Inspect goes on to those below.
func (m *mutator) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		m.negate(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					m.negate(e)
				}
			}
		}
		m.cases(n.Body)
	case *ast.TypeSwitchStmt:
		m.cases(n.Body)
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.CompositeLit:
		m.elements(n, n.Elts, n.Rbrace)
	case *ast.CallExpr:
		return m.call(n)
	case *ast.BlockStmt:
		m.statements(n.List)
	case *ast.CaseClause:
		m.statements(n.Body)
	case *ast.SelectorExpr:
		m.constant(n, n.Sel)
		if _, isName := n.X.(*ast.Ident); isName {
			return false
		}
	case *ast.Ident:
		m.constant(n, n)
	case *ast.BasicLit:
		m.literal(n)
	}
	return true
}

// negate leaves a bare == to compare.
func (m *mutator) negate(cond ast.Expr) {
	if b, ok := cond.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		return
	}
	m.replace(negate, cond, cond.Pos(), cond.End(), "!("+m.of(cond.Pos(), cond.End())+")")
}

var comparisons = map[token.Token]string{ // const
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
}

func (m *mutator) binary(n *ast.BinaryExpr) {
	if with, ok := comparisons[n.Op]; ok {
		m.replace(compare, n, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), with)
	}
	if n.Op != token.LAND && n.Op != token.LOR {
		return
	}
	operands := chain(n, n.Op)
	for i, o := range operands {
		if i == 0 {
			m.replace(operand, n, o.Pos(), operands[1].Pos(), "")
		} else {
			m.replace(operand, n, operands[i-1].End(), o.End(), "")
		}
	}
}

// chain are the operands of a && b && c. That of a && b, which is below it, gives no mutant
// that this one does not.
func chain(e ast.Expr, op token.Token) []ast.Expr {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == op {
		return append(chain(b.X, op), chain(b.Y, op)...)
	}
	return []ast.Expr{e}
}

// elements drops one of a list that ends at a position.
func (m *mutator) elements(around ast.Node, list []ast.Expr, end token.Pos) {
	for i, e := range list {
		switch {
		case len(list) == 1:
			m.replace(element, around, e.Pos(), end, "")
		case i == len(list)-1:
			m.replace(element, around, list[i-1].End(), e.End(), "")
		default:
			m.replace(element, around, e.Pos(), list[i+1].Pos(), "")
		}
	}
}

// call drops one of what is given to append, or to another function that takes any number, but
// not of a format's. What is said in messages is left alone, with all that is below.
func (m *mutator) call(n *ast.CallExpr) bool {
	f := called(m.TypesInfo, n)
	switch {
	case m.says(n):
		return false
	case m.alone[n] || f != nil && f.Pkg() != nil && f.Pkg().Path() == "fmt":
		return true
	}
	fixed := -1
	if sig, ok := m.TypesInfo.TypeOf(n.Fun).(*types.Signature); ok && sig.Variadic() {
		fixed = sig.Params().Len() - 1
	}
	if fixed < 0 || fixed >= len(n.Args) {
		return true
	}
	last := len(n.Args) - 1
	for i := fixed; i <= last; i++ {
		from, to := n.Args[i].Pos(), n.Rparen
		switch {
		case i < last:
			to = n.Args[i+1].Pos()
		case i > 0:
			from = n.Args[i-1].End()
		}
		m.replace(element, n, from, to, "")
	}
	return true
}

// says tells whether a call makes an error or a line of a log.
func (m *mutator) says(n *ast.CallExpr) bool {
	f := called(m.TypesInfo, n)
	return f != nil && f.Pkg() != nil && (f.Pkg().Path() == "log/slog" || f.Pkg().Path() == "errors" || f.Pkg().Path() == "fmt" && f.Name() == "Errorf")
}

// called is the function or method that a call calls, nil if it is a value.
func called(info *types.Info, n *ast.CallExpr) *types.Func {
	var id *ast.Ident
	switch f := ast.Unparen(n.Fun).(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return nil
	}
	f, _ := info.Uses[id].(*types.Func)
	return f
}

func (m *mutator) cases(body *ast.BlockStmt) {
	for _, c := range body.List {
		m.replace(branch, c, c.Pos(), c.End(), "")
	}
}

// statements drops calls and assignments of a list of statements.
func (m *mutator) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && m.says(call) {
				continue
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
			if call, ok := s.Rhs[0].(*ast.CallExpr); ok && len(call.Args) == 2 && types.ExprString(call.Args[0]) == types.ExprString(s.Lhs[0]) {
				m.alone[call] = true // x = append(x, y) without y is that without all of it
			}
		case *ast.IncDecStmt:
		default:
			continue
		}
		m.replace(without, s, s.Pos(), s.End(), "")
	}
}

// returnEarly lets a function do nothing.
func (m *mutator) returnEarly(d *ast.FuncDecl) {
	if len(d.Body.List) == 0 {
		return
	}
	var zero []string
	named := false
	if d.Type.Results != nil {
		for _, r := range d.Type.Results.List {
			named = named || len(r.Names) > 0
			zero = append(zero, "*new("+m.of(r.Type.Pos(), r.Type.End())+")")
		}
	}
	with := "return; "
	if !named && len(zero) > 0 {
		with = "return " + strings.Join(zero, ", ") + "; "
	}
	first := d.Body.List[0]
	m.replace(nothing, first, first.Pos(), first.Pos(), with)
}

// constant puts the next constant of the same type in the place of one, if that type is of
// this module: a protocol, a policy, an action. Numbers of the kernel and names of families
// have no type: there are pairs of them.
func (m *mutator) constant(at ast.Node, id *ast.Ident) {
	used := m.TypesInfo.Uses[id]
	if pair := pairs[id.Name]; pair != "" && used != nil && used.Pkg() != nil && used.Pkg() != m.Types {
		m.replace(another, at, id.Pos(), id.End(), pair)
		return
	}
	c, ok := used.(*types.Const)
	if !ok {
		return
	}
	named, ok := c.Type().(*types.Named)
	if !ok || named.Obj().Pkg() == nil || !strings.HasPrefix(named.Obj().Pkg().Path(), m.Module.Path) || c.Pkg() != named.Obj().Pkg() {
		return
	}
	if next := following(c); next != nil {
		m.replace(another, at, id.Pos(), id.End(), next.Name())
	}
}

// following is the constant of the next value after that of another one of its type, the first after the last.
func following(c *types.Const) *types.Const {
	var all []*types.Const
	scope := c.Pkg().Scope()
	for _, name := range scope.Names() {
		if o, ok := scope.Lookup(name).(*types.Const); ok && types.Identical(o.Type(), c.Type()) && (o == c || !constant.Compare(o.Val(), token.EQL, c.Val())) {
			all = append(all, o)
		}
	}
	if len(all) < 2 {
		return nil
	}
	slices.SortFunc(all, func(a, b *types.Const) int {
		return cmp.Compare(order(a), order(b)) // no two have the same
	})
	return all[(slices.Index(all, c)+1)%len(all)]
}

// order makes numbers go by their value; of texts any order does.
func order(c *types.Const) string {
	if n, ok := constant.Uint64Val(constant.ToInt(c.Val())); ok {
		return fmt.Sprintf("%20d", n)
	}
	return c.Val().ExactString()
}

var pairs = both(map[string]string{ // const
	"IPPROTO_TCP": "IPPROTO_UDP", "IPPROTO_ICMP": "IPPROTO_ICMPV6", "AF_INET": "AF_INET6", "NFPROTO_IPV4": "NFPROTO_IPV6",
	"ETH_P_IP": "ETH_P_IPV6", "Is4": "Is6", "SOCK_STREAM": "SOCK_DGRAM",
})

var literals = both(map[string]string{"tcp": "udp", "ip": "ip6", "ipv4": "ipv6", "icmp": "icmpv6", "saddr": "daddr", "sport": "dport"}) // const

// both are pairs, from either side.
func both(pairs map[string]string) map[string]string {
	out := map[string]string{"IPPROTO_SCTP": "IPPROTO_TCP", "sctp": "tcp"}
	for a, b := range pairs {
		out[a], out[b] = b, a
	}
	return out
}

// literal replaces a text that names a protocol, a family or a side.
func (m *mutator) literal(n *ast.BasicLit) {
	if n.Kind != token.STRING {
		return
	}
	if text, err := strconv.Unquote(n.Value); err == nil && literals[text] != "" {
		m.replace(another, n, n.Pos(), n.End(), fmt.Sprintf("%q", literals[text]))
	}
}
