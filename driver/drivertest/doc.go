// Package drivertest is the conformance suite of the store contract in package
// driver. What a [driver.Store] must do is tested here, once, for every
// database; the tests of a single store hold only what its database alone can
// do.
//
// A store's own tests call three functions:
//
//   - [Exercise] runs every method against one store: each case opens a fresh
//     one, drives it with times of its own and compares whole results.
//   - [ExerciseConcurrent] runs two stores on one database against each other.
//     It is meant for the race detector.
//   - [ExerciseMigrations] starts from a database without a schema.
//
// One case, Model, takes random steps. It logs its seed; the environment
// variable HOOKONCE_TEST_SEED repeats a run.
//
// The suite looks at a store only through the contract. What the contract
// leaves open (the order of messages that are due at the same microsecond, the
// error text of a lost lease) is not asserted; see the comments at the cases.
package drivertest
