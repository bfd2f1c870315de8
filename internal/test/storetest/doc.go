// Package storetest is the conformance suite for the store contract in package driver. It tests the
// behaviour of every [driver.Store] in one place; a store's own tests cover only the features of
// its database.
//
// A store's own tests call four functions:
//
//   - [Exercise] tests every method of one store. Each case opens a fresh store, passes its own
//     times, and compares whole results.
//   - [ExerciseConcurrent] runs two stores on one database against each other. Run it with the race
//     detector.
//   - [ExerciseMigrations] starts from a database without a schema.
//   - [ExerciseWork] tests a [driver.Driver]. It runs handlers in transactions; they fail, end the
//     transaction, or lose their process. Their effects go to a table without any constraint, so
//     that a repeated effect shows. A [Harness] supplies the parts that depend on the database and
//     its transaction type. Run it with the race detector too.
//
// One case of Exercise and of ExerciseWork, Model, takes random steps. Its seed is
// random in a long run, and logged; the environment variable HOOKONCE_TEST_SEED repeats a run.
//
// Behind a pooler, or through another client of the same SQL, the suites run the cases that use things that such a transport
// may break. In a long run (see package group) they run all cases there.
//
// The suite checks a store only through the contract. It does not check anything that the contract
// leaves open, such as the order of messages due at the same microsecond, or the error text of a
// lost lease; comments at the cases say so.
package storetest
