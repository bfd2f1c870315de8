package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// shipping is an API that ships goods, once for each key.
type shipping interface {
	Ship(ctx context.Context, key, order string) error
}

// newShipping returns the API at SHIPPING_URL.
func newShipping() shipping {
	return &shippingAPI{os.Getenv("SHIPPING_URL"), &http.Client{Timeout: 5 * time.Second}}
}

type shippingAPI struct {
	url    string
	client *http.Client
}

func (s *shippingAPI) Ship(ctx context.Context, key, order string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(order))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Idempotency-Key", key)
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)) // read to the end, so that the connection can be reused
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s", resp.Status)
	}
	return nil
}
