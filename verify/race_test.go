//go:build race

package verify_test

// raceDetector reports whether the test runs under the race detector.
const raceDetector = true
