// Package locate reads single fields of a webhook request: the event's id, type and time. A
// location names the place of a field:
//
//	header:Name        the value of a header that occurs exactly once
//	header:Name#key    the value under key in a header "key=value,key=value"
//	body:a.b.0.c       a string or number of a JSON body: object keys and array indexes
//	body:a[].b         b of every element of an array with 1 to 64 elements: each is one part
//	body:              the body itself, if it is a JSON string or number
//	item:a.b           like body:, but inside one item of a batch
//	outer:a.b          like body:, but inside the array element that encloses the item:
//	                   in a batch at body:entry[].changes, the element of entry; no "[]"
//	form:field         a field of a form, urlencoded or multipart/form-data; no file
//	query:name         a parameter of the query string
//	sha256:body        the SHA-256 of the raw body in hex; sha256:item of the item's JSON;
//	                   sha256:form:field of a field's value
//	const:text         that text; only in ParseType
//	a?                 an optional location: if absent, it is an empty part
//	a + b              all locations, as parts of one value
//	a | b              the first location that is present; + binds tighter
//
// In a name, a backslash makes '.', '+', '|', '?', '[' and '\' literal. A '?' is special only at
// the end of a location, and "[]" only at the end of a segment of a path: "[]" alone goes into a
// document that is an array.
//
// There are two ways to read a field. Event ids are read strictly, because a wrong id loses or
// repeats an event: anything that two programs could read differently is refused (see Expr.Eval).
// Types and times are read leniently, because they are only shown and routed by: an unreadable one
// is left empty (see Reader.Read).
//
// The package scans JSON itself, because encoding/json maps different ids to one: it replaces
// invalid UTF-8, rounds numbers, keeps the last of two equal keys and ignores the case of keys. The
// scanner accepts a subset of the documents that encoding/json accepts. One scan finds an array
// with "[]", and one scan more reads each of its elements. The elements that enclose items of a
// batch are scanned once for all those items.
package locate
