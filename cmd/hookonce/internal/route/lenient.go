package route

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// lenient replaces the operators of expr, which panic on missing fields, with functions of this
// package. An expression cannot contain the names of these functions. The tree is walked bottom up.
type lenient struct{}

// Visit implements ast.Visitor.
func (lenient) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == "body" {
			ast.Patch(node, call("(body)", n))
		}
	case *ast.CallNode:
		if name, ok := n.Callee.(*ast.IdentifierNode); ok && slices.Contains(valueFunctions, name.Value) {
			ast.Patch(node, callTo("("+name.Value+")", n, n.Arguments...))
		}
	case *ast.MemberNode:
		if !isEvent(n.Node) {
			ast.Patch(node, callTo("(field)", n, n.Node, n.Property))
		}
	case *ast.UnaryNode:
		switch n.Operator {
		case "not", "!":
			n.Node = truthOf(n.Node)
		case "-":
			ast.Patch(node, callTo("(-)", n, &ast.IntegerNode{}, n.Node))
		case "+":
			ast.Patch(node, callTo("(+)", n, &ast.IntegerNode{}, n.Node))
		}
	case *ast.BinaryNode:
		lenientBinary(node, n)
	case *ast.ConditionalNode:
		n.Cond = truthOf(n.Cond)
	case *ast.BuiltinNode:
		if slices.Contains(listFunctions, n.Name) {
			lenientList(n)
		}
	}
}

func lenientBinary(node *ast.Node, n *ast.BinaryNode) {
	switch n.Operator {
	case "and", "&&", "or", "||":
		n.Left, n.Right = truthOf(n.Left), truthOf(n.Right)
	case "??":
	case "!=":
		ast.Patch(node, &ast.UnaryNode{Operator: "not", Node: callTo("(==)", n, n.Left, n.Right)})
	case "matches":
		// The first pass has compiled this pattern.
		pattern := &ast.ConstantNode{Value: compilePattern(n.Right.(*ast.StringNode).Value)}
		ast.Patch(node, callTo("(matches)", n, n.Left, pattern))
	default:
		ast.Patch(node, callTo("("+n.Operator+")", n, n.Left, n.Right))
	}
}

func lenientList(n *ast.BuiltinNode) {
	list := n.Arguments[0]
	n.Arguments[0] = callTo("(list)", list, list)
	if len(n.Arguments) == 1 { // count(list) counts the true elements
		element := &ast.PointerNode{}
		element.SetLocation(list.Location())
		condition := &ast.PredicateNode{Node: element}
		condition.SetLocation(list.Location())
		n.Arguments = append(n.Arguments, condition)
	}
	if condition, ok := n.Arguments[1].(*ast.PredicateNode); ok {
		if n.Name == "map" {
			condition.Node = callTo("(step)", condition.Node, condition.Node)
			return
		}
		condition.Node = truthOf(condition.Node)
	}
}

func truthOf(n ast.Node) ast.Node { return callTo("(truth)", n, n) }

// callTo returns a call of a function that is charged, at the position of the node at.
func callTo(function string, at ast.Node, args ...ast.Node) *ast.CallNode {
	own := &ast.IdentifierNode{Value: "(budget)"}
	own.SetLocation(at.Location())
	return call(function, at, append([]ast.Node{own}, args...)...)
}

func call(function string, at ast.Node, args ...ast.Node) *ast.CallNode {
	callee := &ast.IdentifierNode{Value: function}
	call := &ast.CallNode{Callee: callee, Arguments: args}
	callee.SetLocation(at.Location())
	call.SetLocation(at.Location())
	return call
}
