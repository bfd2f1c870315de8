package hookonce

import "github.com/hookonce/hookonce/internal/keyfetch"

// Waiting returns how many deliveries wait for their claim.
func Waiting(in *Engine) int { return in.claims.Waiting() }

// SetFetcher replaces what gets keys and confirms subscriptions. Call it before the
// engine is used.
func SetFetcher(in *Engine, f *keyfetch.Fetcher) { in.fetcher = f }

// Confirm confirms a subscription as a handshake does, and reports whether it was begun.
func Confirm(in *Engine, source, url string) bool { return in.confirm(source, url) == nil }
