// Package config reads the settings of the gateway. A YAML file, HOOKONCE_* variables and flags
// become one checked hookonce.Config and the gateway's own settings, such as database and listeners.
//
// # Layers
//
// A later layer replaces single values of an earlier one: defaults, the file, HOOKONCE_* variables,
// flags. A replaced value is not read, so a flag also replaces a faulty value of the file. An empty
// HOOKONCE_* variable counts as unset.
//
// # Values
//
// Variables are expanded after the file is parsed, within the text of single values, so a variable
// can never change the structure. ${NAME} must be set, ${NAME:-default} need not be, and $${ is a
// literal ${. Expanded text is not searched again. A default holds no braces: a ${...} in it is a
// fault, because it would become part of the value as it is written. Keys are not expanded.
//
// A secret, key or token may be file:/path instead, written directly or through a variable. The
// value is then the file's content without the line breaks at its end.
//
// # Faults
//
// Loading continues after a fault, so that one run reports all of them, each with its place in the
// file. A message quotes a value only as it is written in the file, and never quotes a secret or
// the value of a variable.
//
// This package knows the form of the file. The rules of sources, destinations and routes, and their defaults,
// are those of hookonce.Config.Check. check.go places its findings. It leaves out those that follow from a
// value that could not be read.
//
// # Files of this package
//
// A document is read in four steps: parse.go turns YAML into nodes with positions, values.go and
// units.go read single values from nodes, toplevel.go, tls.go, source.go, destination.go and
// route.go know the keys, and check.go asks the root package.
package config
