// Package examplestest runs the programs of the folder examples as processes that serve on a port.
// It delivers events to them as providers do, and kills them.
package examplestest
