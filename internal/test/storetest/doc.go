// Package storetest is the conformance suite of the store contract in package
// driver. What a [driver.Store] must do is tested here, once, for every
// database; the tests of a single store hold only what its database alone can
// do.
//
// A store's own tests call four functions:
//
//   - [Exercise] runs every method against one store: each case opens a fresh
//     one, drives it with times of its own and compares whole results.
//   - [ExerciseConcurrent] runs two stores on one database against each other.
//     It is meant for the race detector.
//   - [ExerciseMigrations] starts from a database without a schema.
//   - [ExerciseWork] is for a [driver.Driver]: it runs handlers in transactions, and
//     lets them fail, end the transaction and lose their process. The effects of
//     these handlers stand in a table without any constraint, so that one that is
//     there twice shows. What takes knowledge of one database and one type of
//     transaction, a [Harness] does. It is meant for the race detector too.
//
// One case of Exercise and of ExerciseWork, Model, takes random steps. It logs its
// seed; the environment variable HOOKONCE_TEST_SEED repeats a run.
//
// The suite looks at a store only through the contract. What the contract
// leaves open (the order of messages that are due at the same microsecond, the
// error text of a lost lease) is not asserted; see the comments at the cases.
package storetest
