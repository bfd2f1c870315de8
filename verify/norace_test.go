//go:build !race

package verify_test

// raceDetector tells whether this program has it.
const raceDetector = false
