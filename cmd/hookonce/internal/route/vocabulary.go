package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
)

var (
	comparisons = []string{"==", "!=", "<", "<=", ">", ">=", "startsWith", "endsWith"}
	operators   = append([]string{
		"and", "&&", "or", "||", "in", "contains", "matches", "??", "+", "-", "*", "/", "%",
	}, comparisons...)
	listFunctions  = []string{"all", "any", "none", "one", "count", "filter", "map", "find"}
	valueFunctions = []string{"len", "lower", "upper", "trim", "string", "int", "float", "abs", "date", "duration"}
)

// vocabulary refuses everything that would break the bounds of this package. It lists the allowed
// syntax, so additions in later versions of expr are refused, too.
type vocabulary struct {
	source file.Source
	depth  int // of the nested conditions of list functions around the node
	err    *Error
}

func checkVocabulary(root ast.Node, source file.Source) error {
	v := &vocabulary{source: source}
	v.visit(root)
	if v.err != nil {
		return v.err
	}
	return nil
}

func (v *vocabulary) refuse(n ast.Node, format string, args ...any) {
	if v.err == nil {
		at := (&file.Error{Location: n.Location()}).Bind(v.source)
		v.err = &Error{Line: at.Line, Column: at.Column + 1, Message: fmt.Sprintf(format, args...)}
	}
}

func (v *vocabulary) visit(node ast.Node) {
	switch n := node.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
	case *ast.IdentifierNode:
		v.identifier(n)
	case *ast.PointerNode:
		if n.Name != "" {
			v.refuse(n, "#%s is not available; use # or .field for the element", n.Name)
		}
	case *ast.UnaryNode:
		v.visit(n.Node)
	case *ast.BinaryNode:
		v.binary(n)
	case *ast.ConditionalNode:
		v.visit(n.Cond)
		v.visit(n.Exp1)
		v.visit(n.Exp2)
	case *ast.ChainNode:
		v.visit(n.Node)
	case *ast.MemberNode:
		v.member(n)
	case *ast.CallNode:
		v.call(n)
	case *ast.BuiltinNode:
		v.builtin(n)
	case *ast.PredicateNode:
		v.depth++
		v.visit(n.Node)
		v.depth--
	case *ast.ArrayNode:
		v.refuse(n, "a list may only stand after `in`")
	case *ast.VariableDeclaratorNode:
		v.refuse(n, "`let` is not available")
	case *ast.SliceNode:
		v.refuse(n, "slices are not available; use startsWith, endsWith or contains")
	default:
		v.refuse(n, "this is not available here")
	}
}

func (v *vocabulary) identifier(n *ast.IdentifierNode) {
	switch {
	case n.Value != "event" && n.Value != "body":
		v.refuse(n, "unknown name %q; an expression sees event and body", n.Value)
	case v.depth > 0:
		v.refuse(n, "inside the condition of a list function %s may only be compared (%s) with",
			n.Value, strings.Join(comparisons, " "))
	case n.Value == "event":
		v.refuse(n, "event is not a value; it has %s", strings.Join(eventFields, ", "))
	}
}

func (v *vocabulary) binary(n *ast.BinaryNode) {
	switch {
	case !slices.Contains(operators, n.Operator):
		v.refuse(n, "the operator %s is not available", n.Operator)
	case n.Operator == "matches":
		if _, ok := n.Right.(*ast.StringNode); !ok {
			v.refuse(n.Right, "the pattern of `matches` must be written out as a text")
		}
		v.visit(n.Left)
	case n.Operator == "in":
		v.visit(n.Left)
		if list, ok := n.Right.(*ast.ArrayNode); ok {
			v.constants(list)
			return
		}
		v.visit(n.Right)
	case slices.Contains(comparisons, n.Operator):
		for _, side := range []ast.Node{n.Left, n.Right} {
			// A path reaches a field in one step, so comparing with it costs no more than comparing
			// with the element itself.
			if !v.isPath(side) {
				v.visit(side)
			}
		}
	default:
		v.visit(n.Left)
		v.visit(n.Right)
	}
}

// constants checks a list after `in`.
func (v *vocabulary) constants(list *ast.ArrayNode) {
	for _, n := range list.Nodes {
		if sign, ok := n.(*ast.UnaryNode); ok {
			n = sign.Node
		}
		switch n.(type) {
		case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
		default:
			v.refuse(n, "a list after `in` may only hold texts, numbers, true, false and nil")
		}
	}
}

// isPath reports whether n is event.x, event.header("x") or body.x.y[0]. It checks the names after
// event.
func (v *vocabulary) isPath(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.ChainNode:
		return v.isPath(n.Node)
	case *ast.IdentifierNode:
		return n.Value == "body"
	case *ast.MemberNode:
		if isEvent(n.Node) {
			v.eventField(n)
			return true
		}
		switch n.Property.(type) {
		case *ast.StringNode, *ast.IntegerNode:
			return v.isPath(n.Node)
		}
	case *ast.CallNode:
		if len(n.Arguments) != 1 || !isHeader(n.Callee) {
			return false
		}
		_, ok := n.Arguments[0].(*ast.StringNode)
		return ok
	}
	return false
}

func (v *vocabulary) member(n *ast.MemberNode) {
	if isEvent(n.Node) && v.depth == 0 {
		v.eventField(n)
		return
	}
	v.visit(n.Node)
	v.visit(n.Property)
}

func (v *vocabulary) eventField(n *ast.MemberNode) {
	name, ok := n.Property.(*ast.StringNode)
	if !ok || !slices.Contains(eventFields, name.Value) {
		v.refuse(n.Property, "event has only %s", strings.Join(eventFields, ", "))
		return
	}
	if name.Value == "header" {
		v.refuse(n.Property, `header is a function: event.header("Name")`)
	}
}

func (v *vocabulary) call(n *ast.CallNode) {
	if isHeader(n.Callee) {
		if v.depth > 0 {
			v.visit(n.Callee.(*ast.MemberNode).Node)
		}
	} else if name, ok := n.Callee.(*ast.IdentifierNode); !ok || !slices.Contains(valueFunctions, name.Value) {
		v.refuse(n, "unknown function; there are %s, and event.header",
			strings.Join(slices.Concat(listFunctions, valueFunctions), ", "))
	}
	for _, arg := range n.Arguments {
		v.visit(arg)
	}
}

func (v *vocabulary) builtin(n *ast.BuiltinNode) {
	if !slices.Contains(listFunctions, n.Name) && !slices.Contains(valueFunctions, n.Name) {
		v.refuse(n, "the function %s is not available; there are %s, and event.header",
			n.Name, strings.Join(slices.Concat(listFunctions, valueFunctions), ", "))
	}
	for _, arg := range n.Arguments {
		v.visit(arg)
	}
}

func isEvent(n ast.Node) bool {
	id, ok := n.(*ast.IdentifierNode)
	return ok && id.Value == "event"
}

// ReadsHeader reports whether an expression that Compile accepts reads a header of the request.
func ReadsHeader(where string) bool {
	tree, err := parser.Parse(where)
	return err == nil && ast.Find(tree.Node, isHeader) != nil
}

func isHeader(n ast.Node) bool {
	m, ok := n.(*ast.MemberNode)
	if !ok || !isEvent(m.Node) {
		return false
	}
	name, ok := m.Property.(*ast.StringNode)
	return ok && name.Value == "header"
}
