// Package verify checks the signatures of webhook requests, and makes them.
//
// A Scheme says as data how a sender signs; Compile turns it into a Verifier,
// once. Everything after that is a pure function of the request, the keys and
// the time that comes with the request: no clock, no I/O, no state, so a saved
// request gives the same answer at any later time.
//
// The order is fixed. The request must have each header that the scheme reads
// exactly once. Then the signature is checked, against every key and every
// signature that the header holds, in time that does not depend on which one
// matches. Only then is the signed time looked at: it must be no further from
// Request.Now than the tolerance, in either direction. A request that passed
// may still be a repetition within the tolerance; to recognise it is what
// event ids are for.
//
// Everything fails closed: an empty secret is an error and never means that
// nothing is checked, a scheme that does not sign the timestamp it names, or the
// body, and does not say so, does not compile, algorithms come from the Scheme
// and never from the request, and a signature has one spelling only (base64
// without stray bits, line breaks or the other alphabet), but for the case of
// hexadecimal digits, the padding of base64url, which may be left out, and
// percent-escapes.
//
// Not all that senders do is sound. A scheme that is not says so: in
// Scheme.Weak, that there is a better one, and in Scheme.Partial, what of the
// request anybody may change who has seen it. A shared token or a password
// (FamilyToken, FamilyBasic) says who has sent a request, and nothing of what
// it held.
package verify
