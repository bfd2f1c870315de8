// Package sdk holds the catalog of providers against the providers' own SDKs and well-kept
// verifiers, of npm and of the Go module proxy: the requests of their signers verify here, those of
// "hookonce send" verify there, and both sides refuse a changed one. The SDKs verify every sample of
// "hookonce send", too, and read it into their types, if they have any.
//
// It is a Go module of its own, with an npm project of its own in npm/, so that hookonce
// depends on nothing in it. Each provider is a file in npm/providers or in providers. One process of
// Node serves all tests; see npm/main.mjs. The evidence of the catalog's entries names the packages
// that judge them here, or the reason why none does.
package sdk
