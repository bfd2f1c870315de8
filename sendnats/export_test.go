package sendnats

import (
	"context"
	"time"
)

// PingEvery sets the time between questions whether a server still lives. It is called before the first Send.
func (s *Sender) PingEvery(d time.Duration) { s.ping = d }

// Refused reports whether the server told that it refused something.
func (s *Sender) Refused() bool {
	c, err := s.link.Get(context.Background())
	return err == nil && c.refused() != nil
}
