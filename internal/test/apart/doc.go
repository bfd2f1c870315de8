// Package apart runs the tests that are modules or machines of their own. It has no code.
package apart
