// Package deps is tests only. They keep the rules that a compiler does not:
// which package may import what, and what a source file must not hold. Each
// failure says which rule it breaks and why there is one.
package deps
