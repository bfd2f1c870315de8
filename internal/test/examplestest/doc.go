// Package examplestest runs the programs of the folder examples as what they are:
// processes that serve on a port, are sent to as providers send, and are killed.
package examplestest
