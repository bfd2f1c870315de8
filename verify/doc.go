// Package verify checks the signatures of webhook requests, and makes them.
//
// A Scheme describes as data how a sender signs. Compile checks it and returns a Verifier.
// Verifier.ParseKey reads a secret or public key, Verifier.Verify checks a Request, and
// Verifier.Sign signs one. The result depends only on the request, the keys and Request.Now: there
// is no clock, no I/O and no state. A saved request gives the same answer at any later time.
//
// # Order of checks
//
// Verify makes its checks in this order:
//
//   - Each header that the scheme reads occurs exactly once.
//   - A signature matches. Every key is tried with every signature, and for shared secrets the time
//     this takes does not show which one matched.
//   - The request meets Scheme.Require, and a token makes the claims of Scheme.JWT.
//   - The signed time differs from Request.Now by at most the tolerance, in either direction.
//
// A request that passes may still be a repetition within the tolerance. Only event ids detect that.
//
// An *Error says why a request failed, and matches one of ErrMissing to ErrNoURL. Its text holds no
// value of the request or of a key, so it can be logged.
//
// # Failing closed
//
// An empty secret is an error, and never turns the check off. A scheme does not compile if it names
// a timestamp that is not signed, or if it leaves the body unsigned and Scheme.Partial does not say
// so. Algorithms come from the Scheme, never from the request. A signature has one accepted
// spelling: base64 without stray bits, line breaks or characters of the other alphabet. Three
// things are free: the case of hexadecimal digits, the padding of base64url, and percent-escapes.
//
// # Unsound schemes
//
// Some senders offer schemes that are not sound. Scheme.Weak says that a better one exists, and
// why. Scheme.Partial names the parts of a request that anyone can change after seeing it. A shared
// token or a password (FamilyToken, FamilyBasic) authenticates the sender, but not the contents of
// the request.
//
// # Public keys
//
// Many senders publish their keys. Verifier.KeyRef returns the address of the key that a request
// names, the caller fetches it, and Verifier.ParseFetched reads it. This package fetches nothing.
package verify
