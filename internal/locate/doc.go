// Package locate reads single fields out of a webhook request: the event's id,
// its type, its time. Where a field stands is said by a location:
//
//	header:Name        the value of a header that occurs exactly once
//	header:Name#key    the value under key in a header "key=value,key=value"
//	body:a.b.0.c       a string or number of a JSON body: object keys and array indexes
//	item:a.b           the same inside one item of a batch
//	form:field         a field of an urlencoded body
//	query:name         a parameter of the query string
//	a + b              composes: all of them, as parts of one value
//	a | b              takes the first that is present; + binds tighter
//
// A backslash takes the meaning off '.', '+', '|' and '\' in a name.
//
// Two readings of a field exist. The strict one is for event ids, where a
// wrong answer loses an event or repeats one: it refuses everything that two
// programs could read differently (see Expr.Eval). The lenient one is for what
// is only shown and routed by: a type or a time that cannot be read is left
// empty (see Reader.Read).
//
// JSON is read by a scanner of our own over the raw bytes, because
// encoding/json turns different ids into one: it replaces invalid UTF-8,
// rounds numbers, keeps the last of two equal keys and folds their case. The
// scanner accepts a subset of what encoding/json accepts.
package locate
