package driver

import "time"

// DeliveryCount holds the deliveries of one event since the last flush.
type DeliveryCount struct {
	Key         Key
	Duplicates  int // deliveries after the first
	OtherBodies int // those with a different body
	Repeats     int // deliveries of this event's body under other ids
	// Recent are the newest of the duplicates, at most MaxRecent, the newest last. The store keeps
	// the newest MaxRecent of the event.
	Recent []Delivery
	// Other is one of the duplicates with another body; nil if there is none. The store keeps the
	// first one that it gets, if the event still has its own body.
	Other *OtherBody
}

// CountDeliveriesParams are the parameters of Store.CountDeliveries.
type CountDeliveriesParams struct {
	Counts []DeliveryCount // sorted by Key, without repetition
	// Counted, if not nil, gets each event with duplicates in Counts, after the commit.
	Counted func(CountedEvent)
	// Clock is the caller's clock at the call, for the times of Recent and Other. The store keeps
	// these by its own clock.
	Clock time.Time
	Now   time.Time // tests only; zero means the database's clock
}

// CountedEvent is an event whose duplicates were counted.
type CountedEvent struct {
	Key        Key
	Source     string
	ReceivedAt time.Time
}
