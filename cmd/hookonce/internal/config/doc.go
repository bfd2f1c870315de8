// Package config reads the settings of the gateway: a YAML file, HOOKONCE_*
// variables and flags become one checked hookonce.Config and what stands
// around it.
//
// # Layers
//
// A later layer replaces single values of an earlier one: defaults, the file,
// HOOKONCE_* variables, flags. What is replaced is not looked at, so a flag
// also stands in for a value of the file that could not be read. An empty
// HOOKONCE_* variable is as good as an unset one.
//
// # Values
//
// Variables are put in after the file was parsed, into the text of single
// values, so what a variable holds can never change the structure: ${NAME} must
// be set, ${NAME:-default} need not, $${ is a literal ${. What comes out of a
// variable is not searched again. Keys take no variables.
//
// A value that is a secret, a key or a token may be file:/path instead, whether
// written so or by way of a variable: the file's content counts, without the
// line breaks at its end.
//
// # Faults
//
// Loading goes on behind a fault, so that one run reports all of them, each
// with its place in the file. A message quotes a value only as it is written in
// the file, and never one that is a secret or came out of a variable.
//
// # Files of this package
//
// A document is read in three steps: parse.go turns YAML into nodes that know
// where they stand, values.go and units.go read single values out of nodes,
// and toplevel.go, source.go, destination.go and route.go know the keys.
package config
