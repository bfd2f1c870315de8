package claims

import (
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// reserved is a message of a batch with a reservation.
type reserved struct {
	entry       *entry
	message     *driver.NewMessage
	reservation Reservation
}

// reserve makes the claims of the batch lease their messages, as far as there is room.
func (b *batch) reserve(reserve func(*driver.Message) Reservation) {
	for _, e := range b.entries {
		c := e.claim
		for i := range c.Messages {
			m := &c.Messages[i]
			r := reserve(&driver.Message{
				ID: m.ID, Key: c.Key, Source: c.Source, EventID: c.EventID, Type: c.Type, Route: m.Route,
				Destination: m.Destination, Headers: c.Headers, Body: c.Body,
			})
			if r == nil {
				continue
			}
			b.reserved = append(b.reserved, reserved{e, m, r})
			m.LeaseFor = r.LeaseFor()
		}
	}
}

// endReservations sends the messages that the claims leased, and cancels the other reservations.
func (b *batch) endReservations() {
	for len(b.reserved) > 0 {
		v := b.reserved[0]
		b.reserved = b.reserved[1:]
		result := &v.entry.result
		i := slices.IndexFunc(result.Leases, func(l driver.MessageLease) bool { return l.ID == v.message.ID })
		if i < 0 {
			if result.Err == nil && result.Settled() { // else the store may still read the claim, behind a deadline
				v.message.LeaseFor = 0 // it is leased the usual way
			}
			v.reservation.Cancel()
			continue
		}
		v.reservation.Send(result.Leases[i].Token, result.ReceivedAt)
	}
}
