package figures

// MaxSums is the most sums that wait.
const MaxSums = maxSums

// Waiting returns how many sums wait to be written.
func Waiting(s *Sums) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}
