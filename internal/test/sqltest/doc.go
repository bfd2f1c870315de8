// Package sqltest tests the interface for applications in any language: the SQL functions and views
// on PostgreSQL, and the consumers among the examples.
//
// The functions are tested here, on a real server. Consumer is the trial that every consumer of the
// examples must pass.
package sqltest
