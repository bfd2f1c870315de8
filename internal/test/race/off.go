//go:build !race

package race

// Enabled tells whether this test binary runs under the race detector.
const Enabled = false
