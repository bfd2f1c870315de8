package keyfetch

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/hookonce/hookonce/internal/dial"
)

// Confirm sends a GET to a URL with the limits of keys: only public addresses, no redirects, no
// proxy. The caller has checked that the URL is https and belongs to the provider. An answer other
// than 2xx is an error. Errors match ErrUnavailable and show only the host of the URL.
func (f *Fetcher) Confirm(ctx context.Context, rawURL string) error {
	host, err := checkURL(rawURL)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, http.NoBody)
	if err != nil {
		return fmt.Errorf("%w: the request cannot be made (host %s)", ErrUnavailable, host)
	}
	req.Header.Set("User-Agent", "hookonce")
	resp, err := dial.Twice(f.transport, req)
	if err != nil {
		return fmt.Errorf("%w: %w (host %s)", ErrUnavailable, err, host)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, MaxSize)); err != nil {
		return fmt.Errorf("%w: reading the answer: %w (host %s)", ErrUnavailable, err, host)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%w: the server answered %d (host %s)", ErrUnavailable, resp.StatusCode, host)
	}
	return nil
}
