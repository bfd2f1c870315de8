// Package route compiles the `where` expressions of routes.
//
// An expression decides whether an event becomes a message. It is written in
// the language of github.com/expr-lang/expr, cut down to what a decision needs:
//
//	body.livemode and body.amount > 100
//	event.type startsWith "invoice." and event.header("X-Region") in ["eu", "us"]
//	any(body.items, .sku == body.main_sku)
//
// # What it sees
//
// event has source, id, type, occurred_at (a time, or nil if the sender did
// not say) and header(name) (the first value of that header, or nil). body is
// the parsed JSON of the event's body, nil where the body is not JSON; it is
// parsed when the evaluation first reaches it, at most once per evaluation.
//
// # What is missing is nil
//
// Senders leave fields out, and change their shape from one event type to the
// next. A field of nil, of a number, of a text is nil, and so is an element
// past the end of a list. nil counts as false where true or false is wanted,
// compares as neither less nor greater than anything, is in no list, and a
// list function takes it for the empty list. Comparing, adding or joining
// values whose types do not fit each other is an error, and an event for which
// the expression fails is not routed.
//
// # Numbers
//
// Whole numbers of the body keep all their digits, whatever their length up to
// 40 digits, and compare exactly with other whole numbers and with fractions:
// body.id == 9007199254740993 is not true for 9007199254740992. A number with
// a fraction or an exponent is a float64, as in every Go program. A result of
// whole-number arithmetic that leaves 64 bits is a float64 too. An id beyond
// 64 bits cannot be written as a number; compare string(body.id) instead.
//
// # Functions
//
// all, any, none, one, count, filter, map, find over lists; len, lower, upper,
// trim, string, int, float, abs, date, duration over values. There is no
// assignment, no clock, no randomness and no way to reach anything outside of
// the event: the same event gets the same answer every time.
//
// # Bounds
//
// An expression has at most 4,096 bytes. The vocabulary is chosen so that one
// evaluation takes time in proportion to len(expression) × len(body) at most,
// without a timer: nothing makes a value longer than what it was made of, and
// inside the condition of a list function, which runs once per element, only
// the element itself may be searched; body and event may only be compared with.
package route
