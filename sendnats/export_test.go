package sendnats

import "time"

// PingEvery sets the time between questions whether a server still lives. It is called before the first Send.
func (s *Sender) PingEvery(d time.Duration) { s.ping = d }
