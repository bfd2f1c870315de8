package sqlitestore

import "github.com/hookonce/hookonce/driver"

// numberOfID is the number of the message with an id, with the arguments idArgs. The ids are in no
// index of their own, which would be written at a random place for each message: an id leads to its
// event, by the index of the keys, and the event to its few messages.
const numberOfID = `coalesce((` + messageOf + `e.key BETWEEN ?2 AND ?3), (` + messageOf + `e.key = ?4))`

const messageOf = `SELECT m.number FROM hookonce_event e CROSS JOIN hookonce_message m ON m.event = e.id AND m.id = ?1 WHERE `

// ofID is the condition that a message has that id.
const ofID = `number = ` + numberOfID

// idArgs returns the arguments of numberOfID, and then more.
func idArgs(id string, more ...any) []any {
	enqueued := driver.OutboxKey(id)
	first, last, ok := driver.EventsOfMessage(id)
	if !ok {
		first, last = enqueued, enqueued
	}
	return append([]any{id, first[:], last[:], enqueued[:]}, more...)
}
