package sendkafka

// Buffered returns how many records the producer has not finished.
func (s *Sender) Buffered() int64 {
	p, err := s.get()
	if err != nil {
		return 0
	}
	return p.client.BufferedProduceRecords()
}
