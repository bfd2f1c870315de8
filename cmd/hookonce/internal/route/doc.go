// Package route compiles the `where` expressions of routes.
//
// An expression decides whether an event becomes a message. It uses a subset of the language of
// github.com/expr-lang/expr:
//
//	body.livemode and body.amount > 100
//	event.type startsWith "invoice." and event.header("X-Region") in ["eu", "us"]
//	any(body.items, .sku == body.main_sku)
//
// # Values
//
// event has source, id, type, occurred_at (a time, or nil if the sender gave none) and header(name)
// (the first value of that header, or nil). body is the parsed JSON of the event's body, or nil if
// the body is not JSON. It is parsed when the evaluation first needs it, at most once per
// evaluation.
//
// # Missing fields are nil
//
// Senders leave fields out, and the shape differs between event types. A field of nil, of a number
// or of a text is nil, and so is an element past the end of a list. nil counts as false where true
// or false is needed; it is neither less nor greater than anything; it is in no list; a list
// function treats it as the empty list. Comparing, adding or joining values of types that do not
// fit is an error, and an event whose expression fails is not routed.
//
// # Numbers
//
// Whole numbers of the body keep all their digits, up to 40, and compare exactly with other whole
// numbers and with fractions: body.id == 9007199254740993 is not true for 9007199254740992. A
// number with a fraction or an exponent is a float64, as in every Go program. Whole-number
// arithmetic that exceeds 64 bits gives a float64, too. An id beyond 64 bits cannot be written as a
// number; compare string(body.id) instead.
//
// # Functions
//
// all, any, none, one, count, filter, map, find over lists; len, lower, upper, trim, string, int,
// float, abs, date, duration over values. There is no assignment, no clock, no randomness, and no
// access to anything outside the event: the same event always gets the same answer.
//
// # Bounds
//
// An expression has at most 4,096 bytes. The vocabulary bounds the time of one evaluation, without
// a timer, in proportion to len(expression) × len(body), and a budget of steps bounds it to a few
// tenths of a second: each operation is charged before it runs, and a regular expression by the
// size of its program times that of its input. Beyond it the event is undecided. No operation makes a value longer than its
// operands. The condition of a list function runs once per element, so it may search only the
// element; it may use body and event only in comparisons.
package route
