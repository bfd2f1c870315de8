package route

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/hookonce/hookonce"
)

const (
	// maxSteps bounds one evaluation, to a few tenths of a second. A step is one instruction of a
	// regular expression on one byte, which takes some nanoseconds.
	maxSteps = 32 << 20
	// callSteps is the cost of one call of a function of this package.
	callSteps = 8
	// textShare is how many bytes of a text an operation handles in one step.
	textShare = 8
)

// budget holds the steps that an evaluation may still take. Every operation that can repeat or grows
// with its operands is charged before it runs.
type budget struct{ left int }

// errSteps is an *Error, which gives it a position, and matches hookonce.ErrUndecided.
var errSteps = &Error{
	Message: "the evaluation takes too long: match shorter texts, use simpler regular expressions or shorter lists",
	cause:   hookonce.ErrUndecided,
}

func (b *budget) charge(steps int) error {
	if b.left -= steps; b.left < 0 {
		b.left = 0
		return errSteps
	}
	return nil
}

// chargeCall charges a call for its texts.
func (b *budget) chargeCall(args []any) error {
	steps := callSteps
	for _, v := range args {
		if s, ok := v.(string); ok {
			steps += len(s) / textShare
		}
	}
	return b.charge(steps)
}

// pattern is a regular expression with the size of its program.
type pattern struct {
	*regexp.Regexp
	size int
}

// compilePattern panics if the pattern is not valid: the first pass has compiled it.
func compilePattern(text string) *pattern {
	p := &pattern{Regexp: regexp.MustCompile(text)}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		panic(fmt.Sprintf("route: %q: %v", text, err))
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		panic(fmt.Sprintf("route: %q: %v", text, err))
	}
	p.size = len(program.Inst)
	return p
}

// matches reports whether p matches s. Package regexp takes time in proportion to the size of the
// program times that of its input.
func (b *budget) matches(p *pattern, s string) (bool, error) {
	if len(s) > maxSteps/p.size {
		return false, errSteps
	}
	if err := b.charge(p.size * len(s)); err != nil {
		return false, err
	}
	return p.MatchString(s), nil
}
