// Package deps holds only tests. They enforce rules that a compiler does not: which package may
// import which, and how source files and docs are written. Each failure names the broken rule and
// its reason.
package deps
