// Package locate reads single fields out of a webhook request: the event's id,
// its type, its time. Where a field stands is said by a location:
//
//	header:Name        the value of a header that occurs exactly once
//	header:Name#key    the value under key in a header "key=value,key=value"
//	body:a.b.0.c       a string or number of a JSON body: object keys and array indexes
//	body:a[].b         of every element of an array, 1 to 64 of them: each is one part
//	body:              the body itself, where it is a JSON string or number
//	item:a.b           the same as body: inside one item of a batch
//	outer:a.b          likewise, inside the element of an array that encloses the item:
//	                   of a batch at body:entry[].changes that of entry; no "[]" in it
//	form:field         a field of an urlencoded body
//	query:name         a parameter of the query string
//	sha256:body        the SHA-256 of the raw body in hex; sha256:item of the item's JSON;
//	                   sha256:form:field of a field's value
//	const:text         that text; only where ParseType reads it
//	a?                 a location that need not be there: it is then an empty part
//	a + b              composes: all of them, as parts of one value
//	a | b              takes the first that is present; + binds tighter
//
// A backslash takes the meaning off '.', '+', '|', '?', '[' and '\' in a name.
// A '?' has a meaning only at the end of a location, and "[]" only at the end of
// a segment of a path: "[]" alone goes into a document that is an array.
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
// scanner accepts a subset of what encoding/json accepts. An array behind "[]" is
// found by one scan, and each of its elements by another. What encloses items of a
// batch is scanned once for all of them.
package locate
