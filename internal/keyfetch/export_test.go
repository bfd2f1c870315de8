package keyfetch

// Documents returns how many documents are kept.
func Documents(f *Fetcher) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.documents)
}
