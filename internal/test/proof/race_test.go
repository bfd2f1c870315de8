//go:build race

package proof

// raceDetector tells whether this program has it.
const raceDetector = true
