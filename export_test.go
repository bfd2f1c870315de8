package hookonce

// Waiting returns how many deliveries wait for their claim.
func Waiting(in *Engine) int {
	in.claims.mu.Lock()
	defer in.claims.mu.Unlock()
	return len(in.claims.waiting)
}
