package route

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/hookonce/hookonce"
)

// MaxLength is the maximum length of an expression, in bytes.
const MaxLength = 4096

// maxNodes bounds the syntax tree of an expression.
const maxNodes = 2048

// memoryExceeded is the text of package vm for lists with more than a million elements in all.
const memoryExceeded = "memory budget exceeded"

// Error is a fault of an expression, or of one evaluation. It shows no values of an event, only
// their types.
type Error struct {
	Line, Column int // position in the expression, from 1; 0 for the whole expression
	Message      string
	cause        error // hookonce.ErrUndecided, or nil
}

// Unwrap returns hookonce.ErrUndecided if the evaluation was given up.
func (e *Error) Unwrap() error { return e.cause }

// Error returns the message, and the position if it is known.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s (at %d:%d of the expression)", e.Message, e.Line, e.Column)
}

// Compile checks the expression where and returns a function that decides about events. The error
// is an *Error. The function is safe for concurrent use, keeps no state, only reads the event, and
// returns an *Error if the event's values do not fit the expression. The error matches
// hookonce.ErrUndecided if the evaluation would take too long.
func Compile(where string) (func(*hookonce.Event) (bool, error), error) {
	switch {
	case len(where) > MaxLength:
		return nil, &Error{Message: fmt.Sprintf("the expression has %d bytes; at most %d are allowed", len(where), MaxLength)}
	case strings.TrimSpace(where) == "":
		return nil, &Error{Message: "the expression is empty; leave it out to take every event"}
	case !utf8.ValidString(where):
		return nil, &Error{Message: "the expression is not valid UTF-8"}
	}
	tree, err := parser.Parse(where)
	if err != nil {
		return nil, describe(err)
	}
	if err := checkVocabulary(tree.Node, file.NewSource(where)); err != nil {
		return nil, err
	}
	options := append([]expr.Option{
		expr.Env(environment{}), expr.Optimize(false), expr.MaxNodes(maxNodes),
	}, functions()...)
	options = options[:len(options):len(options)]
	// The first pass checks the types, so that errors use the author's words. The second pass
	// replaces the operations that would fail on a missing field.
	if _, err := expr.Compile(where, append(options, expr.AsBool())...); err != nil {
		return nil, describe(err)
	}
	program, err := expr.Compile(where, append(options, expr.Patch(lenient{}))...)
	if err != nil {
		return nil, describe(err)
	}
	return func(ev *hookonce.Event) (bool, error) { return run(program, ev) }, nil
}

// ReadsBody reports whether an expression that Compile takes looks into the body.
func ReadsBody(where string) bool {
	tree, err := parser.Parse(where)
	if err != nil {
		return false
	}
	found := bodies(false)
	ast.Walk(&tree.Node, &found)
	return bool(found)
}

// bodies becomes true at the name body.
type bodies bool

// Visit implements ast.Visitor.
func (b *bodies) Visit(node *ast.Node) {
	if name, is := (*node).(*ast.IdentifierNode); is && name.Value == "body" {
		*b = true
	}
}

func run(program *vm.Program, ev *hookonce.Event) (bool, error) {
	out, err := expr.Run(program, newEnvironment(ev))
	if err != nil {
		return false, describe(err)
	}
	yes, err := truth(out)
	if err != nil {
		return false, describe(err)
	}
	return yes, nil
}

// describe turns an error of expr, which prints the source on several lines, into one line with a
// position.
func describe(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		// One of our functions failed: the outer error knows the place.
		var at *file.Error
		if errors.As(err, &at) && own.Line == 0 {
			return &Error{Line: at.Line, Column: at.Column + 1, Message: own.Message, cause: own.cause}
		}
		return own
	}
	var at *file.Error
	if errors.As(err, &at) {
		if strings.Contains(at.Message, memoryExceeded) {
			return &Error{Line: at.Line, Column: at.Column + 1, Message: errSteps.Message, cause: errSteps.cause}
		}
		return &Error{Line: at.Line, Column: at.Column + 1, Message: strings.Join(strings.Fields(at.Message), " ")}
	}
	return &Error{Message: strings.Join(strings.Fields(err.Error()), " ")}
}
